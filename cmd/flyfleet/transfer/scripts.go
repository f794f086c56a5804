package transfer

// Scripts of the machine's end. They are constant; names come as arguments or on stdin, content on stdin. They use only what coreutils,
// findutils and busybox have alike, and say what is wrong on stderr, in the words of the tool that failed.
const (
	// listScript prints every name below the directory.
	listScript = `exec find . -print0`

	// linksScript prints where each link of its arguments leads, ended by NUL.
	linksScript = `for n do readlink -n -- "$n"; printf '\0'; done`

	// hashScript takes SIZE NAME pairs and prints a line for each: the hash of the first SIZE bytes, or -.
	hashScript = `while [ $# -ge 2 ]; do
  if [ -f "$2" ] && [ -r "$2" ]; then s=$(head -c "$1" <"$2" | sha256sum) || s=-; else s=-; fi
  printf '%s\n' "${s%% *}"
  shift 2
done`

	// mkdirsScript makes each directory, parents first, and stops at the first that is none, or is outside.
	mkdirsScript = `umask 022
here=$(pwd -P; printf x); here=${here%?x}; here=${here%/}
for d do
  if [ -d "$d" ]; then
    if [ ! -w "$d" ] || [ ! -x "$d" ]; then chmod u+rwx -- "$d" || exit 1; fi
  elif [ -e "$d" ] || [ -L "$d" ]; then
    printf '%s: Not a directory\n' "$d" >&2; exit 1
  else
    mkdir -- "$d" || exit 1
  fi
  r=$(cd -P -- "$d" && pwd -P; printf x); r=${r%?x}
  case $r/ in "$here"/*) ;; *) printf '%s: leads out of the directory\n' "$d" >&2; exit 1 ;; esac
done`

	// batchScript takes a staging directory and the directories that what stdin's archive has in 0, 1, 2, ... goes to. GNU's tar tells of a
	// disk that fills in the middle of a write how much it wrote, and not why.
	batchScript = `s=$1 i=0 rc=0
shift
rm -rf -- "$s"
mkdir -- "$s" || exit 1
e=$(tar -xpof - -C "$s" 2>&1) || {
  [ "$(stat -f -c %a -- "$s")" -gt 16 ] || e="No space left on device: $e"
  printf '%s\n' "$e" >&2
  rm -rf -- "$s"
  exit 1
}
for d do
  find "$s/$i" -mindepth 1 -maxdepth 1 -print0 | xargs -0 -r sh -c 'd=$1; shift; exec mv -f -- "$@" "$d/"' sh "$d" || rc=1
  i=$((i + 1))
done
rm -rf -- "$s" || rc=1
exit $rc`

	// sweepScript removes all that begins with its argument.
	sweepScript = `exec rm -rf -- "$1"*`

	// pieceScript takes PART BLOCK LENGTH FIRST, in blocks of 64 KiB, and writes stdin there.
	pieceScript = `umask 077
if [ "$4" = yes ]; then rm -f -- "$1"; : >"$1" || exit 1; fi
[ -f "$1" ] && [ ! -L "$1" ] || { printf '%s: the part is gone\n' "$1" >&2; exit 1; }
dd bs=65536 seek="$2" conv=notrunc iflag=fullblock of="$1" 2>&1 | { e=''; while IFS= read -r l; do case $l in dd:*) e=$l ;; esac; done; [ -z "$e" ] || printf '%s\n' "$e" >&2; }
[ "$(stat -c %s -- "$1")" -ge $(($2 * 65536 + $3)) ] || { echo 'the piece did not get through whole' >&2; exit 1; }`

	// finishScript takes PART NAME MODE TIME HASH. Exit code 3: the hash differs.
	finishScript = `s=$(sha256sum <"$1") || exit 1
[ "${s%% *}" = "$5" ] || { rm -f -- "$1"; exit 3; }
[ ! -d "$2" ] || [ -L "$2" ] || { printf '%s: Is a directory\n' "$2" >&2; exit 1; }
touch -d "@$4" -- "$1" && chmod -- "$3" "$1" && exec mv -fT -- "$1" "$2"`

	// linkScript takes PART, then TARGET NAME pairs. A line for each that failed: its number and why.
	linkScript = `p=$1 i=0
shift
while [ $# -ge 2 ]; do
  rm -f -- "$p"
  if [ -d "$2" ] && [ ! -L "$2" ]; then
    e='Is a directory'
  else
    e=$({ ln -s -- "$1" "$p" && mv -fT -- "$p" "$2"; } 2>&1) && e=''
  fi
  [ -z "$e" ] || printf '%s %s\0' "$i" "$e"
  i=$((i + 1))
  shift 2
done`

	// touchScript takes MODE TIME NAME triples. A line for each that failed.
	touchScript = `i=0
while [ $# -ge 3 ]; do
  e=$({ touch -c -d "@$2" -- "$3" && chmod -- "$1" "$3"; } 2>&1) || printf '%s %s\0' "$i" "$e"
  i=$((i + 1))
  shift 3
done`
)
