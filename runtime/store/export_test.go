package store

// OutputQueued is how many lists of chunks wait for a lane.
func (s *Store) OutputQueued() int {
	n := 0
	for _, lane := range s.output.lanes {
		n += len(lane)
	}
	return n
}
