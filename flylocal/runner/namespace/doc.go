// Package namespace is the runner that isolates: each machine is a set of Linux namespaces, made by bubblewrap, with
// its image as "/", its volumes at their paths, its own processes and its own empty network.
//
// Nothing of a machine runs as real root. How far the image's users are told apart depends on the computer:
//
//	mapped     as root, or with newuidmap: 65,536 ids, so that the image's owners and users are real
//	single-id  an ordinary user without newuidmap: one id; owners are recorded, not applied
package namespace
