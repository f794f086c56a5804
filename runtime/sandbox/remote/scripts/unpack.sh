# DIR LENGTH SCRIPT END NEED: on standard input LENGTH bytes of what SCRIPT is to vet, then a tar archive. It is unpacked when nothing was
# said against any of it, and the answer then ends with the record x, with how tar ended and when it began. NEED is how many bytes there
# should be room for; without it the answer ends with the record s. 0 tries in any case. END is not read: it tells the last of a tree's
# parts from the others, so that a repeat under the same id whose tree goes on after it is another exec, which is a conflict.
n=$1
made=''
if [ ! -d "$n" ]; then
  if [ -e "$n" ] || [ -L "$n" ]; then
    why "$n"
    fail "${e:-ENOTDIR}"
  fi
  mkdirs "$n" || fail "$e"
  made=yes
fi
[ -x "$n" ] && cd -P -- "$n" 2>/dev/null || fail EACCES
command -v tar dd xargs >/dev/null || exit 127
echo ok
[ -z "$made" ] || printf 'd .//\n'
if [ "$2" != 0 ]; then
  dd bs="$2" count=1 iflag=fullblock 2>/dev/null | xargs -0 -r sh -c "$3" flyfleet .
  case $? in
    0) ;;
    123) exit 0 ;;
    *) exit 9 ;;
  esac
fi
# tar removes a file before it makes the new one: where there may be no room for that, files are better made one by one.
# shellcheck disable=SC2046
set -- "$5" $(stat -f -c '%a %S %d %c' -- . 2>/dev/null)
if [ "$1" -gt 0 ] && [ $# = 5 ]; then
  if [ "$(($2 * $3))" -lt "$1" ] || { [ "$5" -gt 0 ] && [ "$4" -lt 1000 ]; }; then
    printf 's //\n'
    exit 0
  fi
fi
# busybox applies the umask; every directory is there by now.
umask 000
start=$(date +%s)
tar -xpof - 2>/dev/null
rc=$?
[ "$rc" -lt 126 ] || exit 127
printf 'x %s %s//\n' "$rc" "$start"
