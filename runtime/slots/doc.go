// Package slots says which machine a session works on, and opens it.
//
//	session has a slot ──► that machine, also after this runtime restarted ──► gone for good? slot released ─┐
//	tenant has machines ──► the one with the most free slots ◄───────────────────────────────────────────────┤
//	tenant has none ──────► one of the warm pool, for good ◄─────────────────────────────────────────────────┘
//
// Machines are found by their metadata (flyfleet_fleet, flyfleet_tenant, flyfleet_pool) in the organization's list, which
// is asked for once for all who wait for it. The rows of package store are the truth about who works where: the slot is
// claimed in the transaction that starts a session's first command, and this package only proposes its machine.
//
// # The warm pool
//
// A claim is a compare-and-set in the database, then metadata on the machine under its lease, then a look whether it is
// there. One that breaks off before the first write goes on later with the same machine and tenant. One that fails after it
// retires the machine: it is offered to nobody any more. No machine ever serves two tenants.
//
// # Cold machines
//
// A machine on which nothing runs is suspended or stopped (Rest). Who was first, the rest or a session that begins, is
// decided by the lock of the machine's row:
//
//	rest      Fly's lease ── lock row, nobody at work? mark ── nothing runs? ── suspend ── unmark ── lease released
//	session   is running ── read row under the lock: marked? wait : work
//
// A mark whose maker died is taken away by who gets Fly's lease next. Waking is connecting: flycast starts the machine.
package slots
