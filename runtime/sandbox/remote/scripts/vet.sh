# KINDNAME... of entries that are to be made below DIR: a record e for each that cannot be, and the end is then 3. Directories are
# made at once, each with a record d; whoever sent them gives them their modes when all else is done.
# Kinds: d a directory, o anything else, p what must only lie inside, as the target of a hard link.
here=$(pwd -P && printf x)
here=${here%?x}
here=${here%/}

# leads LINK: whether it leads to a directory that is not outside.
leads() {
  [ -d "$1" ] || return 1
  r=$(cd -P -- "$1" 2>/dev/null && pwd -P && printf x)
  r=${r%?x}
  case $r/ in "$here"/*) return 0 ;; esac
  return 1
}

# way DIR: what is against making something in it, in le; in lw, against making anything new there.
way() {
  le='' lw='' at=. rest=$1
  while [ -n "$rest" ]; do
    c=${rest%%/*}
    case $rest in */*) rest=${rest#*/} ;; *) rest='' ;; esac
    case $c in . | '') continue ;; esac
    [ -x "$at" ] || { le=EACCES; return 0; }
    [ "${#c}" -le 255 ] || { le=ENAMETOOLONG; return 0; }
    p=$at/$c
    if [ -L "$p" ]; then
      leads "$p" || { le=EINVAL; return 0; }
      at=$p
    elif [ -d "$p" ]; then
      at=$p
    elif [ -e "$p" ]; then
      le=ENOTDIR
      return 0
    else
      long "$rest" || { le=ENAMETOOLONG; return 0; }
      break
    fi
  done
  [ -x "$at" ] || le=EACCES
  [ -w "$at" ] || { denied "$at"; lw=$e; }
}

long() {
  l=$1
  while [ -n "$l" ]; do
    c=${l%%/*}
    [ "${#c}" -le 255 ] || return 1
    case $l in */*) l=${l#*/} ;; *) l='' ;; esac
  done
}

last='' made='' said=0 count=$#
for entry do
  n=${entry#?}
  kind=${entry%"$n"}
  parent "$n"
  if [ "$d" != "$last" ]; then
    last=$d
    way "$d"
  fi
  e=$le
  if [ -z "$e" ] && [ "${#b}" -gt 255 ]; then e=ENAMETOOLONG; fi
  if [ -z "$e" ]; then
    case $kind in
      d)
        if [ ! -L "$n" ] && [ -d "$n" ]; then
          :
        elif [ -e "$n" ] || [ -L "$n" ]; then
          e=EEXIST
        else
          e=$lw
          [ -n "$e" ] || set -- "$@" "$n"
        fi
        ;;
      o)
        if [ ! -L "$n" ] && [ -d "$n" ]; then e=EISDIR; else e=$lw; fi
        if [ -z "$e" ] && [ ! -d "$d" ] && [ "$d" != "$made" ]; then
          made=$d
          set -- "$@" "$d"
        fi
        ;;
    esac
  fi
  if [ -n "$e" ]; then
    said=3
    printf 'e %s %s//\n' "$e" "$n"
  fi
done
shift "$count"
if [ $# -gt 0 ]; then
  mkdir -p -- "$@" 2>/dev/null
  for n do
    [ ! -d "$n" ] || printf 'd %s//\n' "$n"
  done
fi
exit "$said"
