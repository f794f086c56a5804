# "TIME NAME"...: removes what a tar that failed left half done: the files that were touched since it began.
for entry do
  n=${entry#* }
  if [ -f "$n" ] && [ ! -L "$n" ] && [ "$(stat -c %Z -- "$n")" -ge "${entry%% *}" ]; then
    rm -f -- "$n"
  fi
done
exit 0
