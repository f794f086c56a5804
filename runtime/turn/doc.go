// Package turn decides what a session's owner does next. Next is a function from the session's State, the
// fold of its journal, and the Facts that only the database and the process know, to Actions. It does no
// I/O and keeps nothing; the driver carries actions out, appends what happened, folds it, and asks again.
// So a new owner needs nothing of the old one but the journal, and code may change between two entries.
//
//	idle ─ input ─► accepted ─► need model ─► model in flight ─┬─► settling ─► idle
//	                              ▲   ▲            │           │
//	                              │   └─ aborted ──┘           ▼
//	                              └──── every call has ◄── tools pending ──► park: cards are open and
//	                                    its result                           nothing else can go on
//
// What is done about a call that was started and has no result, when nobody works on it any more, is decided
// by its class: pure runs again, keyed is sent again under its key, attached is asked for on its machine, and
// opaque is told to be unknown. Nothing else is ever repeated.
package turn
