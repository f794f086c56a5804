# LIMIT NAME...: the contents, one after the other, no more than LIMIT of each. Standard error has a line for each, ok or an errno, and
# for ok what dd says, by which the contents are told apart.
most=$1
shift
exec 3>&2 2>/dev/null
for n do
  if [ -f "$n" ]; then
    if [ -r "$n" ]; then e=ok; else e=EACCES; fi
  elif [ -d "$n" ]; then
    e=EISDIR
  elif [ -e "$n" ]; then
    e=EINVAL
  else
    why "$n"
    e=${e:-ENOENT}
  fi
  echo "= $e" >&3
  [ "$e" != ok ] || dd bs=65536 iflag=fullblock,count_bytes count="$most" <"$n" 2>&3 || echo '= EIO' >&3
done
exit 0
