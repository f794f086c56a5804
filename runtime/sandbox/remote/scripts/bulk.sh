# NAME OFFSET LIMIT MOST: the size of the part, then blocks of 1 MiB, one for each line that comes on standard input, until there are
# no more of either. So what the machine keeps of the output is never more than the caller has asked for and not had.
readable "$1"
{
  part "$2" "$3" "$4"
  printf 'ok\n%s\n' "$w"
  dd bs=65536 iflag=skip_bytes skip="$2" count=0 <&3 2>/dev/null || exit 9
  while read -r _; do
    r=$(dd bs=65536 count=16 iflag=fullblock <&3 2>&1 >&4) || exit 9
    case $r in 16+0*) ;; *) break ;; esac
  done
} 3<"$1" 4>&1 || exit 9
exit 0
