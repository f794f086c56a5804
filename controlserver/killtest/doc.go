// Package killtest holds the tests that kill: it runs the control server's own binary, built with the
// tag crashpoints, and ends its server, its clients and their connections at random moments and at the
// worst ones, while commands run. What it demands of every command: it ran exactly once, its code is
// right, and every byte of its output arrived in its place. The rest of the package holds what else a
// command must survive: a full disk, a stale owner, a suspended machine.
package killtest
