# NAME MODE LENGTH TIME ID FOLLOW; the content on standard input.
id=$5 follow=$6
place "$1" "$2" "$3" "$4" all || fail "$e"
echo ok
