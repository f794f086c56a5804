package journal

import (
	"encoding/json"
	"errors"
	"fmt"
)

// CheckpointFormat changes with every change of State's fields or of what the fold puts in them. A test
// holds it against the checkpoint of a known session.
const CheckpointFormat = 1

// ErrCheckpoint says that a checkpoint is of no use to this build: throw it away and fold the entries.
var ErrCheckpoint = errors.New("the checkpoint is of another build or broken")

type checkpoint struct {
	Format int    `json:"format"`
	State  *State `json:"state"`
}

// Checkpoint is the state as bytes. It saves a later owner the fold of what it covers, and nothing is lost
// when it is thrown away.
func (s *State) Checkpoint() ([]byte, error) {
	return json.Marshal(checkpoint{Format: CheckpointFormat, State: s})
}

// Restore reads a checkpoint. Entries after State.Seq can be applied to what it returns. The error wraps
// ErrCheckpoint.
func Restore(data []byte) (*State, error) {
	var c checkpoint
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if c.Format != CheckpointFormat || c.State == nil {
		return nil, fmt.Errorf("%w: format %d, this build has %d", ErrCheckpoint, c.Format, CheckpointFormat)
	}
	return c.State, nil
}
