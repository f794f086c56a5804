# Common to all scripts: called as sh -c SCRIPT flyfleet DIR ARGUMENT..., with LC_ALL=C. Only what dash, bash and busybox's ash
# do alike, and only programs and options that coreutils and busybox share. Names come as arguments, never as text.
umask 022

# fail ERRNO: the whole answer.
fail() {
  printf '%s\n' "$1"
  exit 0
}

# target LINK: its text in l, trailing newlines kept.
target() {
  l=$(readlink -n -- "$1"; printf x)
  l=${l%x}
}

# why NAME: the errno that following NAME ends with in e, empty when it leads somewhere. It walks as the kernel does. Afterwards at is
# the last directory reached, and rest what follows the component that was missing.
why() {
  e='' hops=0 rest=$1 at=.
  while :; do
    case $rest in /*) at=/ ;; esac
    while :; do case $rest in /*) rest=${rest#/} ;; *) break ;; esac; done
    [ -n "$rest" ] || return 0
    c=${rest%%/*}
    case $rest in */*) more=1 rest=${rest#*/} ;; *) more=0 rest='' ;; esac
    [ -x "$at" ] || { e=EACCES; return 0; }
    [ "${#c}" -le 255 ] || { e=ENAMETOOLONG; return 0; }
    case $at in /) p=/$c ;; *) p=$at/$c ;; esac
    if [ -L "$p" ]; then
      hops=$((hops + 1))
      [ "$hops" -le 40 ] || { e=ELOOP; return 0; }
      target "$p"
      if [ "$more" = 1 ]; then rest=$l/$rest; else rest=$l; fi
    elif [ -d "$p" ]; then
      at=$p
    elif [ -e "$p" ]; then
      [ "$more" = 0 ] || e=ENOTDIR
      return 0
    else
      e=ENOENT
      return 0
    fi
  done
}

# missing NAME: fails for a NAME that leads nowhere; EIO when it has come to lead somewhere.
missing() {
  why "$1"
  fail "${e:-EIO}"
}

# readable NAME: fails unless it is a file that can be read.
readable() {
  if [ -f "$1" ]; then
    [ -r "$1" ] || fail EACCES
  elif [ -d "$1" ]; then
    fail EISDIR
  elif [ -e "$1" ]; then
    fail EINVAL
  else
    missing "$1"
  fi
}

# denied DIR: the errno of not being able to write in it, in e.
denied() {
  e=EACCES
  m=$(stat -L -c '%u %a' -- "$1" 2>/dev/null)
  u=$(id -u)
  case $u:$m in
    0:* | "$u:$u "*[2367]??) [ -w "$1" ] || e=EROFS ;;
  esac
}

# spent DIR BYTES: why a write of so many more bytes failed there, in e.
spent() {
  e=EIO
  f=$(stat -f -c '%a %S %d %c' -- "$1" 2>/dev/null) || return 0
  # shellcheck disable=SC2086
  set -- "$1" "$2" $f
  if [ "$(($3 * $4))" -le "$(($2 + $4))" ]; then
    e=ENOSPC
  elif [ "$6" -gt 0 ] && [ "$5" -eq 0 ]; then
    e=ENOSPC
  fi
}

# mkdirs DIR: makes it and what is missing on the way; 1 with e when that fails.
mkdirs() {
  mkdir -p -- "$1" 2>/dev/null && return 0
  why "$1"
  if [ -z "$e" ]; then
    [ -d "$1" ] && return 0
    e=ENOTDIR
  elif [ "$e" = ENOENT ]; then
    while [ -n "$rest" ]; do
      c=${rest%%/*}
      [ "${#c}" -le 255 ] || { e=ENAMETOOLONG; return 1; }
      case $rest in */*) rest=${rest#*/} ;; *) rest='' ;; esac
    done
    if [ -w "$at" ]; then spent "$at" 4096; else denied "$at"; fi
  fi
  return 1
}

# parent NAME: the directory part in d, the last element in b; slashes at the end are not counted.
parent() {
  b=$1
  while :; do case $b in /) break ;; */) b=${b%/} ;; *) break ;; esac; done
  case $b in
    /) d=/ b='' ;;
    */*) d=${b%/*} b=${b##*/} ;;
    *) d=. ;;
  esac
  [ -n "$d" ] || d=/
}

[ -z "${making-}" ] || [ -d "$1" ] || mkdirs "$1" || fail "$e"
cd -P -- "$1" 2>/dev/null || {
  why "$1"
  [ -n "$e" ] || { if [ -d "$1" ]; then e=EACCES; else e=ENOTDIR; fi; }
  fail "$e"
}
shift
