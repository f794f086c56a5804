// Package remote is the sandbox of a machine: every operation is an exec over the wire, so the machine end knows commands and bytes
// and nothing of files.
//
// A file operation is one exec of a constant script (scripts/). Names are its arguments, content its standard input; neither is
// ever part of a script's text. The script finds out by itself what the kernel would have said, and answers on standard output: a
// line with "ok" or the errno's name, then records or content. What the exec's id is decides what a repeat means: a fresh one for an
// ordinary call, the view's for Once, so that the machine hands out the first answer again. Operations that need more execs derive
// their ids from the first (wire.DeriveID).
package remote
