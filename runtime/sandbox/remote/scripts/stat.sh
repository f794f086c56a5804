# NAME...: per name a record l of itself, a record f of what a link leads to, and a record e where there is an error.
all=$(stat -c 'l %f %s %Y %u %g %h %n//' -- "$@" 2>/dev/null)
rc=$?
[ "$rc" -lt 126 ] || exit "$rc"
[ -z "$all" ] || printf '%s\n' "$all"
# When stat has found every name, and none is a link (whose mode begins with a), nothing is left to be asked of each.
case $rc:$all in 0:*'l a'*) ;; 0:*) exit 0 ;; esac
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
[ "$links" = 0 ] || stat -L -c 'f %f %s %Y %u %g %h %n//' -- "$@" 2>/dev/null
exit 0
