package flyapi

// WriteKind says what a write changed.
type WriteKind int

// What can be written.
const (
	WroteApp WriteKind = iota
	WroteMachine
	WroteVolume
	WroteAddress
)

// Write is one change that this client asked for. ID is the machine's or volume's id; for apps and addresses App alone
// says where.
type Write struct {
	Kind    WriteKind
	App, ID string
}

// OnWrite calls fn after each write that was asked for, whether or not it succeeded, so that a cache of lists forgets
// what may have changed. fn must be quick and safe for concurrent use.
func (c *Client) OnWrite(fn func(Write)) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.onWrite = append(c.onWrite, fn)
}

func (c *Client) wrote(w Write) {
	c.writeMu.Lock()
	fns := c.onWrite
	c.writeMu.Unlock()
	for _, fn := range fns {
		fn(w)
	}
}
