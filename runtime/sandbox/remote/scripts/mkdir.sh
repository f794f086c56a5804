# NAME PARENTS MODE
if [ -e "$1" ] || [ -L "$1" ]; then
  [ "$2" = yes ] && [ -d "$1" ] && fail ok
  fail EEXIST
fi
parent "$1"
if [ ! -d "$d" ]; then
  if [ "$2" = yes ]; then
    mkdirs "$d" || fail "$e"
  else
    why "$d"
    fail "${e:-ENOTDIR}"
  fi
fi
[ -x "$d" ] || fail EACCES
[ "${#b}" -le 255 ] || fail ENAMETOOLONG
mkdir -m "$3" -- "$1" 2>/dev/null && fail ok
if [ -e "$1" ] || [ -L "$1" ]; then
  [ "$2" = yes ] && [ -d "$1" ] && fail ok
  fail EEXIST
fi
if [ -w "$d" ]; then spent "$d" 4096; else denied "$d"; fi
fail "$e"
