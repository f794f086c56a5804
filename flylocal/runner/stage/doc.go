// Package stage is what runs first inside a new user and mount namespace: it is root there and nobody outside. It
// unpacks images, removes what machines left, and prepares a machine's file systems before it becomes bubblewrap,
// which makes the other namespaces and starts the init.
//
//	platform ── clone(user, mount namespace) ──► stage ── exec ──► bubblewrap ── clone(pid, net, …) ──► init, PID 1
//
// The platform may run as real root while the stage must not depend on walking host paths: its ids have no right to
// pass a 0700 directory. So a Source is either a path, for an ordinary user's stage, or a detached copy of a mount
// (open_tree), made by root and handed over as a file.
package stage
