// Package driver carries out what package turn decides: it is all of a turn that waits, fails and is timed. One
// goroutine owns a claimed session: it folds, asks turn.Next, and is the only one that appends. What takes time (a
// model call, a tool call, a machine to open) runs in goroutines that it owns, which hand it what came of it:
//
//	               ┌───────────── loop of a claim ──────────────┐
//	store ◄─ steps ┤ facts ─► turn.Next ─► actions ─► begin, end │
//	      ─ news ─►│              ▲                             │
//	               └──────────────┼─────────────────────────────┘
//	                     events ──┘  model call · tool calls · execs ─► output, straight to the store
//
// Nothing is kept but what the journal, the database's rows and the machine's records hold, so any other owner can go
// on from any entry. Secrets are masked where bodies and output enter the store. No connection of the database is held
// while something is waited for.
package driver
