# NAME OFFSET LIMIT MOST SMALL: the size of the part, then the part itself when it is no larger than SMALL.
readable "$1"
{
  part "$2" "$3" "$4"
  if [ "$w" -gt "$5" ]; then
    printf 'ok\n%s\n' "$w"
    exit 0
  fi
  count=$w
  # Files of /proc have no size and still have content.
  if [ "$s" = 0 ]; then
    count=$5
    [ "$3" = 0 ] || [ "$3" -ge "$5" ] || count=$3
  fi
  printf 'ok\n%s\n' "$w"
  [ "$count" = 0 ] || dd bs=65536 iflag=skip_bytes,count_bytes skip="$2" count="$count" <&3 2>/dev/null || exit 9
} 3<"$1" || exit 9
