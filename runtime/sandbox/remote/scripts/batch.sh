# ID FILES KEEPS, then names of files, and directories .flyfleet-ID beside them. On standard input a tar archive of the files in those
# directories, with their modes; the names in it begin with .flyfleet-ID where there is but one. KEEPS has a word for each file: k when it
# keeps the mode that it has, g when it has been given one. The answer is done; or again, when it is to be tried one by one; or nothing was
# changed and there is a word for each file and directory: "." nothing against it, x no case for this, l a link, or the mode that it has and
# the archive should have had.
id=$1 files=$2 keeps=$3 whole=''
shift 3
command -v tar mkdir mv rmdir stat >/dev/null || exit 127

# A signal may come anywhere: what is removed is looked at by its name.
clean() {
  for s do
    case $s in */.flyfleet-"$id") rm -rf -- "$s" ;; esac
  done
}
trap 'clean "$@" "$whole"' EXIT
trap 'exit 143' HUP INT TERM

# above NAME: the directory that it is in, in d.
above() {
  case $1 in */*) d=${1%/*} d=${d:-/} ;; *) d=. ;; esac
}

# reach DIRECTORY: whether a file can be made in it; where it is missing, in the first above it that is there. fresh stays while all are missing.
reach() {
  d=$1
  [ ! -e "$d" ] || fresh=''
  while [ ! -e "$d" ]; do
    c=${d##*/}
    [ ! -L "$d" ] || return 1
    [ "${#c}" -le 255 ] || return 1
    above "$d"
  done
  [ -d "$d" ] && [ -x "$d" ] && [ -w "$d" ]
}

# lookAround NAME...: around has a word for each directory.
lookAround() {
  shift "$files"
  around='' against='' fresh=yes
  for n do
    s=.
    above "$n"
    reach "$d" || s=x against=yes
    around="$around $s"
  done
}

# none NAME...: whether nothing has such a name.
none() {
  for n do
    if [ -e "$n" ] || [ -L "$n" ]; then return 1; fi
  done
}

# look NAME...: said has a word for each file; here counts those that are there, kept those of them that keep their mode.
look() {
  i=0 here=0 kept=0 said='' k=$keeps
  for n do
    [ "$i" -lt "$files" ] || break
    s=.
    if [ ! -e "$n" ]; then
      [ ! -L "$n" ] || s=l
    elif [ -L "$n" ]; then
      s=l
    elif [ -f "$n" ]; then
      here=$((here + 1))
      case $k in k*) kept=$((kept + 1)) ;; esac
    else
      s=x
    fi
    [ "$s" = . ] || against=yes
    said="$said $s"
    k=${k#* }
    i=$((i + 1))
  done
}

# tally MODE...: how many in lines, and in other the first that is not a new file's.
tally() {
  lines=$# other=''
  for m do
    [ "$m" = 644 ] || { other=$m && return 0; }
  done
}

# compare NAME...: look again, with the modes of those that keep theirs.
compare() {
  i=0 said='' k=$keeps
  modes=$(stat -L -c %a -- "$@" 2>/dev/null)
  # shellcheck disable=SC2086
  tally $modes
  [ "$lines" = "$here" ] || return 1
  [ -n "$other" ] || return 0
  modes="$modes
"
  for n do
    s=.
    [ "$i" -lt "$files" ] || break
    if [ -f "$n" ]; then
      m=${modes%%
*}
      modes=${modes#*
}
      case $k:$m in
        k*:644 | g*) ;;
        *) s=$m against=yes ;;
      esac
    fi
    said="$said $s"
    k=${k#* }
    i=$((i + 1))
  done
}

# rename DIRECTORY: what is in it goes beside it.
rename() {
  d=${1%/*} from=$1
  set -- "$from"/*
  [ ! -e "$1" ] || mv -f -- "$@" "$d/" 2>/dev/null
  set -- "$from"/.[!.]*
  [ ! -e "$1" ] || mv -f -- "$@" "$d/" 2>/dev/null
  set -- "$from"/..?*
  [ ! -e "$1" ] || mv -f -- "$@" "$d/" 2>/dev/null
}

lookAround "$@"
# Where all is new there is nothing to be told of each.
if [ -n "$against" ] || { [ -z "$fresh" ] && ! none "$@"; }; then
  look "$@"
  if [ -z "$against" ] && [ "$kept" -gt 0 ]; then
    compare "$@" || fail again
  fi
fi
[ -z "$against" ] || fail "as$said$around"
shift "$files"
at=.
if [ $# = 1 ]; then
  above "$1"
  at=$d
  if [ -n "$fresh" ]; then
    # A directory that is missing comes with all its files.
    to=$d
    above "$to"
    [ -d "$d" ] || mkdir -p -- "$d" 2>/dev/null || fail again
    at=$d whole=$d/.flyfleet-$id
  fi
fi
tar -xpomf - -C "$at" 2>/dev/null
rc=$?
[ "$rc" -lt 126 ] || exit 127
[ "$rc" = 0 ] || fail again
if [ -n "$whole" ]; then
  # Somebody may have made it by now: it may be in use.
  mv -nT -- "$whole" "$to" 2>/dev/null
  [ ! -e "$whole" ] || fail again
else
  for s do rename "$s"; done
  rmdir -- "$@" 2>/dev/null || {
    for s do [ ! -d "$s" ] || fail again; done
  }
fi
trap - EXIT
echo done
