// Package crashpoint names the moments at which the death of a replica would be worst: before and after each
// commit that the recovery of a turn depends on. A build with the tag crashpoints can be told to kill itself
// at one of them; in every other build Hit is empty, On is false, and both cost nothing.
//
// Points of the store, in the order in which a turn passes them:
//
//	submit.before, submit.after, claim.after,
//	commit.before.<kind>, commit.after.<kind> for each kind of entry in a step (journal.Kind's names),
//	commit.before.terminalize, commit.after.terminalize,
//	decide.before, decide.after, park.before, park.after, release.after, output.after,
//	ask.before, ask.after, told.before, told.after (a command's call by the way back: its row, and the note that it has its answer)
//
// Points of the driver: model.answered (the answer is not committed), effect.before and effect.after (around a tool, whose
// intent is committed and whose result is not), exec.start.before and exec.start.after (around the machine's start),
// serve.before and serve.after (around a call that a command asks for, as effect's are around the others).
package crashpoint
