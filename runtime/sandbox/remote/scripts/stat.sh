# NAME...: per name a record l of itself, a record f of what a link leads to, and a record e where there is an error.
links=0
for n do
  if [ -L "$n" ]; then
    links=1
    [ -e "$n" ] && continue
    why "$n"
    [ "$e" = ENOENT ] || [ "$e" = ENOTDIR ] || printf 'e %s %s//\n' "${e:-EIO}" "$n"
  elif [ ! -e "$n" ]; then
    why "$n"
    printf 'e %s %s//\n' "${e:-ENOENT}" "$n"
  fi
done
stat -c 'l %f %s %Y %u %g %h %n//' -- "$@" 2>/dev/null
rc=$?
[ "$links" = 0 ] || stat -L -c 'f %f %s %Y %u %g %h %n//' -- "$@" 2>/dev/null
[ "$rc" -lt 126 ] || exit "$rc"
exit 0
