// Package transfer copies files and trees between this computer and a machine, both ways, and goes on where a copy that was cut stopped.
//
// Both ends are a side: a directory with names below it, here (an os.Root) or there (a sandbox.Sandbox). One engine works on two sides:
//
//	list the source ──► look at the same names in the target ──► plan (pure) ──► directories ──► small files in batches,
//	large ones in pieces ──► links ──► modes and times
//
// No file is ever written under its final name. Small files are staged and moved. A large one grows in a part file beside its target,
// whose name follows from both ends of the copy, so that the next run finds it; what it holds counts only when its hash is the
// hash of as many bytes of the source, and it gets its final name only when the hash of all of it is the source's.
package transfer
