# ID, then MODE LENGTH NAME for each; all contents on standard input, one after the other. The answer has a line for each.
name=$1 k=0 follow=yes
shift
echo ok
while [ $# -ge 3 ]; do
  id=$name-$k
  if place "$3" "$1" "$2" '' part; then echo ok; else echo "$e"; fi
  k=$((k + 1))
  shift 3
done
