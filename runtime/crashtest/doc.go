// Package crashtest kills replicas of the runtime: the real program, with a real Postgres and a real control server, at
// every point at which a death would be worst, under a client's call and under a command's, at random moments, by a stop that
// lasts longer than the lease, and with the machine restarting or gone under it. The machine is one of a fleet in the namespace runner, or, at
// random, a control server by itself. After each run all that was promised is counted: one result a call, one side effect a
// command, entries without a gap, one end, every byte of output once, no secret anywhere. A command's own call has the effects at a
// service that its class promises, and one answer. It holds tests only.
//
//	make test-crash
package crashtest
