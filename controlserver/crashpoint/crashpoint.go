// Package crashpoint names the moments of an exec's life at which the death of the server would be
// worst. A build with the tag crashpoints can be told to kill the server at one of them; in every other
// build At is empty and costs nothing.
package crashpoint

// Point is such a moment. It is passed by the process named, keeper or server; it is always the server
// that dies there.
type Point string

// The points, in the order in which an exec passes them.
const (
	// BeforeOrder: the server is about to ask the keeper for a start.
	BeforeOrder Point = "before-order"
	// BeforeMkdir: the keeper was asked, and has done nothing.
	BeforeMkdir Point = "before-mkdir"
	// MkdirFork: the keeper has taken the id, and no process is there.
	MkdirFork Point = "mkdir-fork"
	// ForkStarted: the process runs, the keeper has not recorded it.
	ForkStarted Point = "fork-started"
	// StartedReply: the start is on record, the server does not know of it.
	StartedReply Point = "started-reply"
	// Pumping: the server has moved bytes and told nobody.
	Pumping Point = "pumping"
	// Pty: the server has moved bytes of a terminal to its pipe, but not into the spool.
	Pty Point = "pty"
	// Stdin: the server has stored bytes of stdin, and not accepted them.
	Stdin Point = "stdin"
	// ExitNotify: the keeper has an end on record, the server does not know of it.
	ExitNotify Point = "exit-notify"
	// ExitRecord: the server has written the final record and told nobody.
	ExitRecord Point = "exit-record"
	// Attach: the server is about to send to somebody who attached.
	Attach Point = "attach"
	// Adopted: a new server has taken over what lives, and answers nobody yet.
	Adopted Point = "adopted"
	// Forget: the server has left a tombstone, and the files are there.
	Forget Point = "forget"
)
