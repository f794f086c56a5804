# SCRIPT: runs it for the names on standard input, each ended by NUL, as often as their number needs. Each run answers for
# itself; xargs says 123 when one of them ended with a code.
xargs -0 -r sh -c "$1" flyfleet .
case $? in 0 | 123) exit 0 ;; esac
exit 9
