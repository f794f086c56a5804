# NAME ID FOLLOW: removes what a write of that id has left, whose script could not.
follow=$3
aim "$1"
rm -f -- "$d/.flyfleet-$2"
echo ok
