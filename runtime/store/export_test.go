package store

import "log/slog"

// OutputQueued is how many lists of chunks wait for a lane.
func (s *Store) OutputQueued() int {
	n := 0
	for _, lane := range s.output.lanes {
		n += len(lane)
	}
	return n
}

// Remembering gives a claim, made without Claim, that remembers its last entry as one by Claim does.
func (c Claim) Remembering() Claim {
	c.tip = new(tip)
	return c
}

// StepsQueued is how many steps wait for the writer.
func (s *Store) StepsQueued() int {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return len(s.writer.waiting)
}

// NewNotifier is a notifier without a database.
func NewNotifier() *Notifier { return newNotifier(nil, slog.Default()) }

// Take gives the hint that is to be sent.
func (n *Notifier) Take() string { return n.take() }

// Tell is given a hint that was heard.
func (n *Notifier) Tell(hint string) { n.tell(hint) }
