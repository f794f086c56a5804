// Package wire is the contract between a runtime and the control server of a machine: what both ends
// compute, check and name alike. The messages are in wirev1, the promises in docs/design/wire.md.
package wire

// Version is the wire version that this build speaks, and the only one so far.
const Version = 1

// Build is the version of the program, set when it is linked.
var Build = "dev"

// ControlPort is the port on which the control server of every machine listens.
const ControlPort = 8080
