# ID FILES KEEPS, then names of files, and directories .flyfleet-ID beside them. On standard input a tar archive of the files in those
# directories, with their modes. KEEPS has a word for each file: k when it keeps the mode that it has, g when it has been given one.
# The answer is done; or again, when it is to be tried one by one; or nothing was changed and there is a word for each file and
# directory: "." nothing against it, x no case for this, l a link, or the mode that it has and the archive should have had.
id=$1 files=$2 keeps=$3
shift 3
command -v tar mkdir mv rmdir stat >/dev/null || exit 127

# A signal may come anywhere: what is removed is looked at by its name.
clean() {
  for s do
    case $s in */.flyfleet-"$id") rm -rf -- "$s" ;; esac
  done
}
trap 'clean "$@"' EXIT
trap 'exit 143' HUP INT TERM

beyond() {
  shift "$files"
  mkdir -p -m 700 -- "$@" 2>/dev/null
}

# tally MODE...: how many in lines, and in other the first of the files' that is not a new file's.
tally() {
  lines=$# other='' i=0
  for m do
    [ "$i" -lt "$here" ] || return 0
    [ "$m" = 644 ] || { other=$m && return 0; }
    i=$((i + 1))
  done
}

# look NAME...: said has a word for each; here counts the files that are there, kept those of them that keep their mode.
look() {
  i=0 here=0 kept=0 said='' against='' k=$keeps
  for n do
    s=.
    if [ "$i" -ge "$files" ]; then
      [ -d "$n" ] && [ -x "${n%/*}/" ] && [ -w "${n%/*}/" ] || s=x
    elif [ -L "$n" ]; then
      s=l
    elif [ -f "$n" ]; then
      here=$((here + 1))
      case $k in k*) kept=$((kept + 1)) ;; esac
    elif [ -e "$n" ]; then
      s=x
    fi
    [ "$s" = . ] || against=yes
    said="$said $s"
    k=${k#* }
    i=$((i + 1))
  done
}

# compare NAME...: the same, with the modes of those that keep theirs.
compare() {
  modes=$(stat -L -c %a -- "$@" 2>/dev/null)
  # shellcheck disable=SC2086
  tally $modes
  [ "$lines" = "$((here + $# - files))" ] || return 1
  [ -n "$other" ] || return 0
  i=0 said='' k=$keeps modes="$modes
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

beyond "$@"
look "$@"
if [ -z "$against" ] && [ "$kept" -gt 0 ]; then
  compare "$@" || fail again
fi
[ -z "$against" ] || fail "as$said"
umask 000
tar -xpomf - 2>/dev/null
rc=$?
[ "$rc" -lt 126 ] || exit 127
[ "$rc" = 0 ] || fail again
shift "$files"
for s do rename "$s"; done
rmdir -- "$@" 2>/dev/null || {
  for s do [ ! -d "$s" ] || fail again; done
}
trap - EXIT
echo done
