# NAME DEPTH: a record l for each entry below a directory, DEPTH 1, or of it and all that is below, DEPTH all.
if [ ! -d "$1" ]; then
  why "$1"
  fail "${e:-ENOTDIR}"
fi
[ -r "$1" ] && [ -x "$1" ] && cd -P -- "$1" 2>/dev/null || fail EACCES
command -v find xargs stat >/dev/null || exit 127
echo ok
if [ "$2" = 1 ]; then
  find . -mindepth 1 -maxdepth 1 -print0 2>/dev/null
else
  find . -print0 2>/dev/null
fi | xargs -0 -r stat -c 'l %f %s %Y %u %g %h %n//' -- 2>/dev/null
exit 0
