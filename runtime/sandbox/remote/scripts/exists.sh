# NAME
if [ -e "$1" ] || [ -L "$1" ]; then
  fail yes
fi
why "$1"
case $e in
  ENOENT | ENOTDIR | ELOOP) fail no ;;
esac
fail "${e:-no}"
