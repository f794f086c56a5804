# NAME... below DIR: records e of what cannot be read, the record t, then a tar archive of the files and links among the rest, to the
# end. Standard error has a record l of each of those as it is afterwards, and the record z.
i=$#
while [ "$i" -gt 0 ]; do
  n=$1
  shift
  i=$((i - 1))
  if [ -L "$n" ]; then
    set -- "$@" "$n"
  elif [ -d "$n" ]; then
    [ -r "$n" ] && [ -x "$n" ] || printf 'e EACCES %s//\n' "$n"
  elif [ -f "$n" ]; then
    if [ -r "$n" ]; then set -- "$@" "$n"; else printf 'e EACCES %s//\n' "$n"; fi
  else
    why "$n"
    printf 'e %s %s//\n' "${e:-ENOENT}" "$n"
  fi
done
printf 't //\n'
if [ $# -gt 0 ]; then
  tar -cf - --no-recursion -- "$@" 2>/dev/null
  [ $? -lt 126 ] || exit 127
  stat -c 'l %f %s %Y %u %g %h %n//' -- "$@" >&2 2>/dev/null
fi
printf 'z //\n' >&2
exit 0
