# part OFFSET LIMIT MOST: of the file open as 3, the size in s, and in w how much of it is wanted. Whoever replaces the file
# meanwhile changes nothing about the one that is open.
part() {
  s=$(stat -L -c %s /proc/self/fd/3) || exit 9
  w=$((s - $1))
  [ "$w" -gt 0 ] || w=0
  if [ "$2" -gt 0 ]; then
    [ "$w" -le "$2" ] || w=$2
  elif [ "$w" -gt "$3" ]; then
    fail EFBIG
  fi
}
