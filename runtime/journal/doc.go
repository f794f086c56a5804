// Package journal is the record of a session: its entries, how they become bytes, and what they add up to.
// It is pure: package store keeps entries, package turn decides by their fold.
//
// A session's State is the fold of its entries, in order of Seq, nothing else: no clock, no code that is
// run again. So a new owner of a session needs only the entries, and any build can carry on what another
// began.
//
// # Order
//
// Seq is dense from 1. A fork's own entries go on where its parent was cut: session_forked has
// parent_seq + 1, so that one number names one entry in all that a session has behind it. The parent's
// entries up to the cut are folded first, then the fork's.
//
//	session_created ─► input_accepted ─► turn_started ─► model_requested ─► model_completed ─┐
//	                        ▲                                 ▲   │ model_aborted            │
//	                        │                                 └───┘                          │
//	                        │                                 ▲         tool_called (one a call, same batch)
//	                        │                                 │                              │
//	                        │                          every call has its tool_result ◄──────┤
//	                        └──────────────── submission_settled ◄─────────── no calls ──────┘
//
// Per call: tool_called, [approval_requested, approval_decided], [tool_started, [exec_started,
// exec_exited | exec_lost]], tool_result. Apply refuses any other order with an *OrderError, and an entry
// of a kind or with a value that this build does not know with an *UnknownError: a session that cannot be
// understood is left alone, never guessed at.
package journal
