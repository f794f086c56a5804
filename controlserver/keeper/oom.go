//go:build linux

package keeper

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// ooms counts the kernel's kills for want of memory. The kernel does not say whom it killed to anybody
// who asks later, so an exec that died by a KILL which nobody sent, in a time in which the count rose,
// is told to have died of it.
type ooms struct {
	now   func() time.Time
	count int64
	at    time.Time
}

// recent is a count at most a second old: reading it for every start would cost as much as a pipe.
func (o *ooms) recent() int64 {
	if now := o.now(); now.Sub(o.at) > time.Second {
		o.count, o.at = readOOMs(), now
	}
	return o.count
}

// roseSince says whether the count is above an earlier one.
func (o *ooms) roseSince(count int64) bool {
	o.count, o.at = readOOMs(), o.now()
	return o.count > count
}

// readOOMs reads oom_kill of /proc/vmstat; 0 where the kernel does not tell it.
func readOOMs() int64 {
	b, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0
	}
	_, rest, ok := bytes.Cut(b, []byte("\noom_kill "))
	if !ok {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.ParseInt(string(line), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
