package model

import "time"

// Limits bound one call to a provider. Zero fields have the defaults. The whole call is bounded by the deadline
// of its context.
type Limits struct {
	// FirstByte is how long the provider may take to the first byte of its answer. A model that thinks
	// without telling is silent for minutes. 5 minutes.
	FirstByte time.Duration
	// Idle is how long a stream may be silent after its first byte (withastro/flue#538: 200, then silence).
	// Pings and comments are life. 2 minutes.
	Idle time.Duration
	// Bytes is the most that an answer may have on the wire, framing included. 64 MiB.
	Bytes int64
}

// WithDefaults fills the zero fields.
func (l Limits) WithDefaults() Limits {
	if l.FirstByte <= 0 {
		l.FirstByte = 5 * time.Minute
	}
	if l.Idle <= 0 {
		l.Idle = 2 * time.Minute
	}
	if l.Bytes <= 0 {
		l.Bytes = 64 << 20
	}
	return l
}
