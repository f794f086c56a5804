# "MODE DIRECTORY"..., at the end of a tree: directories that shut themselves are shut last. A record e for each that cannot be.
for entry do
  n=${entry#* }
  if [ -L "$n" ] || [ ! -d "$n" ] || ! chmod -- "${entry%% *}" "$n" 2>/dev/null; then
    printf 'e EPERM %s//\n' "$n"
  fi
done
exit 0
