# With follow set to yes, links are followed; else a link is replaced.
# place NAME MODE LENGTH TIME HOW: makes NAME a file with LENGTH bytes of standard input, all at once; 1 with e when that fails.
# HOW is all (standard input to its end) or part (LENGTH bytes of it). MODE and TIME may be empty. Part takes its bytes in any case.
tmp=''
trap '[ -z "$tmp" ] || rm -f -- "$tmp"' EXIT
trap 'exit 143' HUP INT TERM

place() {
  if aim "$1"; then
    into "$@" && return 0
    [ -z "$tmp" ] || rm -f -- "$tmp"
    tmp=''
    return 1
  fi
  [ "$5" != part ] || take "$3" part >/dev/null
  return 1
}

take() {
  if [ "$2" = all ]; then
    cat
  elif [ "$1" -gt 0 ]; then
    dd bs="$1" count=1 iflag=fullblock 2>/dev/null
  fi
}

# aim NAME: follows links to where the file is to be, in t, with its directory in d and its present mode in was.
aim() {
  t=$1 hops=0 was=''
  while [ "$follow" = yes ] && [ -L "$t" ]; do
    hops=$((hops + 1))
    [ "$hops" -le 40 ] || { e=ELOOP; return 1; }
    target "$t"
    case $l in
      /*) t=$l ;;
      *) case $t in */*) t=${t%/*}/$l ;; *) t=./$l ;; esac ;;
    esac
  done
  parent "$t"
  if [ "$follow" != yes ] && [ -L "$t" ]; then
    # What it leads to does not matter: the link itself is replaced.
    :
  elif [ -d "$t" ]; then
    e=EISDIR
    return 1
  elif [ -f "$t" ]; then
    was=$(stat -L -c %a -- "$t")
    case $was in ????) was=${was#?} ;; esac
  elif [ -e "$t" ]; then
    e=EINVAL
    return 1
  else
    [ -d "$d" ] || mkdirs "$d" || return 1
    [ "${#b}" -le 255 ] || { e=ENAMETOOLONG; return 1; }
    case $t in */) e=EISDIR && return 1 ;; esac
  fi
  [ -x "$d" ] || { e=EACCES; return 1; }
  [ -w "$d" ] || { denied "$d"; return 1; }
}

into() {
  m=${2:-${was:-644}}
  tmp=$d/.flyfleet-$id
  [ "$m" = 644 ] || umask 077
  take "$3" "$5" >"$tmp"
  rc=$?
  umask 022
  have=$(stat -c %s -- "$tmp" 2>/dev/null) || have=0
  if [ "$rc" != 0 ] || [ "$have" != "$3" ]; then
    # EIO where the disk is not full: then it was the reader that died.
    spent "$d" "$(($3 - have))"
    return 1
  fi
  [ "$m" = 644 ] || chmod -- "$m" "$tmp" || { e=EIO; return 1; }
  [ -z "$4" ] || touch -d "@$4" -- "$tmp" || { e=EIO; return 1; }
  mv -fT -- "$tmp" "$t" 2>/dev/null && { tmp='' && return 0; }
  if [ -d "$t" ]; then e=EISDIR; elif [ -k "$d" ]; then e=EPERM; else e=EIO; fi
  return 1
}
