package merge

import (
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Change is one managed path of a config.
type Change struct {
	// Path is a JSON pointer, such as "/env/LOG_LEVEL" (see Pointer).
	Path string
	// Base is the value we last saw there, Ours the value that should stand there. Nil, and null, mean absent.
	Base, Ours json.RawMessage
}

// Conflict says that somebody else changed a managed path since Base was seen. It carries no values: they may be secrets.
type Conflict struct {
	// Path is the Change's.
	Path string
	// Theirs is what happened to it meanwhile: "changed", "removed" or "added".
	Theirs string
}

// String is for messages.
func (c Conflict) String() string { return c.Path + " was " + c.Theirs + " by somebody else" }

// ThreeWay writes our values into their config. Per change, in order:
//
//	theirs = ours   nothing to do
//	theirs = base   ours is written, or the key removed when ours is absent
//	otherwise       the same, and a Conflict: the caller decides whether the result may be used
//
// Values are compared by meaning (1.0 = 1, key order aside). Paths that no change names keep their bytes, and a change
// never touches what stands beside its path.
func ThreeWay(theirs json.RawMessage, changes []Change) (json.RawMessage, []Conflict, error) {
	out := []byte(theirs)
	if _, err := whole(out); err != nil {
		return nil, nil, err
	}
	var conflicts []Conflict
	for _, c := range changes {
		now, _, err := Get(out, c.Path)
		if err != nil {
			return nil, nil, fmt.Errorf("merge %s: %w", c.Path, err)
		}
		if Equal(now, c.Ours) {
			continue
		}
		if !Equal(now, c.Base) {
			conflicts = append(conflicts, Conflict{Path: c.Path, Theirs: happened(now, c.Base)})
		}
		if out, err = write(out, c); err != nil {
			return nil, nil, fmt.Errorf("merge %s: %w", c.Path, err)
		}
	}
	return append(json.RawMessage(nil), out...), conflicts, nil
}

func write(config []byte, c Change) ([]byte, error) {
	if absent(c.Ours) {
		return remove(config, c.Path)
	}
	if !jsontext.Value(c.Ours).IsValid(options...) {
		return nil, fmt.Errorf("our value is not JSON")
	}
	return set(config, c.Path, c.Ours)
}

func happened(now, base json.RawMessage) string {
	switch {
	case absent(base):
		return "added"
	case absent(now):
		return "removed"
	}
	return "changed"
}
