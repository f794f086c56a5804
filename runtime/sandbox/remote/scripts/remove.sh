# NAME RECURSIVE FORCE DIR
n=$1
if [ ! -e "$n" ] && [ ! -L "$n" ]; then
  why "$n"
  case $3:$e in yes:ENOENT | yes:ENOTDIR | yes:ELOOP) fail ok ;; esac
  fail "${e:-ENOENT}"
fi
parent "$n"
if [ -d "$n" ] && [ ! -L "$n" ]; then
  r=$(cd -P -- "$n" 2>/dev/null && pwd -P && printf x)
  r=${r%?x}
  here=$(cd -P -- "$4" 2>/dev/null && pwd -P && printf x)
  here=${here%?x}
  case $here/ in "${r%/}"/*) [ -z "$r" ] || fail EBUSY ;; esac
  case $b in
    .) fail EINVAL ;;
    ..) fail ENOTEMPTY ;;
  esac
  case $n in
    */) case $d in /) [ ! -L "/$b" ] || fail ENOTDIR ;; *) [ ! -L "$d/$b" ] || fail ENOTDIR ;; esac ;;
  esac
  if [ "$2" = yes ]; then rm -rf -- "$n" 2>/dev/null; else rmdir -- "$n" 2>/dev/null; fi
else
  rm -f -- "$n" 2>/dev/null
fi
[ -e "$n" ] || [ -L "$n" ] || fail ok
if [ ! -x "$d" ]; then
  fail EACCES
elif [ ! -w "$d" ]; then
  denied "$d"
  fail "$e"
elif [ -k "$d" ] && [ ! -O "$n" ]; then
  fail EPERM
elif [ -d "$n" ] && [ ! -L "$n" ]; then
  # What cannot be read cannot be emptied, and rmdir of an empty one would have worked.
  if [ ! -r "$n" ] || [ -n "$(ls -A -- "$n" 2>/dev/null)" ]; then
    if [ "$2" = yes ]; then fail EACCES; else fail ENOTEMPTY; fi
  fi
fi
fail EBUSY
