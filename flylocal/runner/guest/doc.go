// Package guest is the init of a machine: PID 1 inside its namespaces, parent of the entrypoint as on Fly.
//
// It brings up the loopback interface with the machine's private address, writes the machine's files, starts the
// entrypoint, reaps what is orphaned, and serves the platform over the control line: connections into the machine's
// network, commands, the process list, signals, freezing. Nothing in the machine can reach that line: it is a
// descriptor of PID 1, which runs as root and is not traced.
//
// When the entrypoint ends, or the line does because the platform is gone, the init exits, and the kernel ends every
// other process of the machine with it.
package guest
