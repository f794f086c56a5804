package daemon

import "time"

// Config of a replica.
type Config struct {
	// DatabaseURL of Postgres; not through a pooler in transaction mode.
	DatabaseURL string
	// Listen is the address of the HTTP listener, host:port.
	Listen string
	// Workspaces is the directory below which sessions work on this computer, when they are not given machines.
	Workspaces string
	// Sessions is how many sessions the replica runs at once.
	Sessions int
	// DrainTime bounds how long a stop waits for what cannot be handed over.
	DrainTime time.Duration
}
