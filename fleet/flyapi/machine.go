package flyapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The states a machine rests in. A wait for "settled" ends in one of them, or in StateDestroyed.
const (
	StateCreated   = "created"
	StateStarted   = "started"
	StateStopped   = "stopped"
	StateSuspended = "suspended"
	StateFailed    = "failed"
	StateDestroyed = "destroyed"
	// StateSettled is no state: asked of WaitMachine it means any resting or final one.
	StateSettled = "settled"
)

// HostOK is the only host_status of a machine whose host can be asked; another value, also a missing one, means that
// it cannot (flyctl treats it so).
const HostOK = "ok"

// Machine is Fly's answer about one machine: the fields that decisions need, and the body byte for byte.
type Machine struct {
	ID, Name, State, Region string
	// InstanceID names the version; each update gives another.
	InstanceID string
	ImageRef   ImageRef
	PrivateIP  string
	HostStatus string
	Cordoned   bool
	// IncompleteConfig: Fly could not read the whole config (its host is away); it must not be written back.
	IncompleteConfig bool
	Checks           []Check
	// Nonce is the lease's, where Fly shows it.
	Nonce string
	// Events, newest first, as far as they could be read.
	Events               []Event
	CreatedAt, UpdatedAt time.Time

	raw    []byte
	config json.RawMessage
}

// Raw is the body of the answer as it came. The caller must not change it.
func (m *Machine) Raw() []byte { return m.raw }

// Config is the value of the answer's `config`, byte for byte: number text, key order, unknown fields. Nil when Fly
// sent none. The caller must not change it.
func (m *Machine) Config() json.RawMessage { return m.config }

// Gone reports that the machine exists no more: `destroyed` counts like a 404 (flyctl#1177, #2852).
func (m *Machine) Gone() bool { return m.State == StateDestroyed || m.State == "destroying" }

// Settled reports that the machine rests: no transition is under way.
func (m *Machine) Settled() bool { return Settled(m.State) }

// Reachable reports that the machine's host answers.
func (m *Machine) Reachable() bool { return m.HostStatus == HostOK }

// Settled reports that a state is a resting or final one.
func Settled(state string) bool {
	switch state {
	case StateCreated, StateStarted, StateStopped, StateSuspended, StateFailed, StateDestroyed:
		return true
	}
	return false
}

// Metadata is config.metadata; values that are not strings are left out.
func (m *Machine) Metadata() map[string]string { return metadataOf(m.config) }

// Image is config.image: what was asked for, where ImageRef is what it resolved to.
func (m *Machine) Image() string {
	var c struct {
		Image string `json:"image"`
	}
	if json.Unmarshal(m.config, &c) != nil {
		return ""
	}
	return c.Image
}

func metadataOf(config json.RawMessage) map[string]string {
	var c struct {
		Metadata map[string]json.RawMessage `json:"metadata"`
	}
	if json.Unmarshal(config, &c) != nil {
		return map[string]string{}
	}
	return textsOf(c.Metadata)
}

// textsOf keeps the values that are strings: one odd value of one machine must not make a whole list unreadable.
func textsOf(values map[string]json.RawMessage) map[string]string {
	out := make(map[string]string, len(values))
	for k, v := range values {
		var s string
		if json.Unmarshal(v, &s) == nil {
			out[k] = s
		}
	}
	return out
}

// ImageRef is what an image resolved to. Tag is empty for a digest-only pin.
type ImageRef struct {
	Registry   string `json:"registry"`
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
	Digest     string `json:"digest"`
}

// String is registry/repository[:tag][@digest].
func (r ImageRef) String() string {
	s := r.Repository
	if r.Registry != "" {
		s = r.Registry + "/" + s
	}
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}

// DigestOf is the digest in an image reference ("sha256:…"), "" when it has none.
func DigestOf(image string) string {
	_, digest, ok := strings.Cut(image, "@")
	if !ok {
		return ""
	}
	return digest
}

// Check is the last result of one health check.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // passing, warning, critical
	Output string `json:"output"`
}

// Event is one line of a machine's history.
type Event struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Status    string `json:"status"`
	Source    string `json:"source"`
	Timestamp int64  `json:"timestamp"` // milliseconds since 1970
	// ExitCode, OOMKilled and RequestedStop are those of an `exit` event.
	ExitCode      int
	OOMKilled     bool
	RequestedStop bool
}

// parseMachine reads the header fields. A field it needs not is never a reason to fail: old answers carry
// `exited_at` as a number where new ones carry text, and a machine that cannot be read cannot be repaired.
func parseMachine(body []byte) (*Machine, error) {
	var h struct {
		ID               string            `json:"id"`
		Name             string            `json:"name"`
		State            string            `json:"state"`
		Region           string            `json:"region"`
		InstanceID       string            `json:"instance_id"`
		ImageRef         ImageRef          `json:"image_ref"`
		PrivateIP        string            `json:"private_ip"`
		HostStatus       string            `json:"host_status"`
		Cordoned         bool              `json:"cordoned"`
		IncompleteConfig json.RawMessage   `json:"incomplete_config"`
		Checks           []json.RawMessage `json:"checks"`
		Nonce            string            `json:"nonce"`
		Events           []json.RawMessage `json:"events"`
		CreatedAt        string            `json:"created_at"`
		UpdatedAt        string            `json:"updated_at"`
		Config           json.RawMessage   `json:"config"`
	}
	if err := json.Unmarshal(body, &h); err != nil {
		return nil, fmt.Errorf("read a machine: %w", err)
	}
	if h.ID == "" {
		return nil, fmt.Errorf("read a machine: the answer has no id")
	}
	m := &Machine{
		ID: h.ID, Name: h.Name, State: h.State, Region: h.Region, InstanceID: h.InstanceID, ImageRef: h.ImageRef,
		PrivateIP: h.PrivateIP, HostStatus: h.HostStatus, Cordoned: h.Cordoned, Nonce: h.Nonce,
		CreatedAt: parseTime(h.CreatedAt), UpdatedAt: parseTime(h.UpdatedAt), raw: body,
	}
	if !isNull(h.Config) {
		m.config = h.Config
	}
	m.IncompleteConfig = !isNull(h.IncompleteConfig) && string(h.IncompleteConfig) != "false"
	for _, raw := range h.Checks {
		var c Check
		if json.Unmarshal(raw, &c) == nil {
			m.Checks = append(m.Checks, c)
		}
	}
	for _, raw := range h.Events {
		if e, ok := parseEvent(raw); ok {
			m.Events = append(m.Events, e)
		}
	}
	return m, nil
}

func parseEvent(raw json.RawMessage) (Event, bool) {
	var e Event
	if json.Unmarshal(raw, &e) != nil {
		return Event{}, false
	}
	var with struct {
		Request struct {
			Exit struct {
				ExitCode      int  `json:"exit_code"`
				OOMKilled     bool `json:"oom_killed"`
				RequestedStop bool `json:"requested_stop"`
			} `json:"exit_event"`
		} `json:"request"`
	}
	if json.Unmarshal(raw, &with) == nil {
		e.ExitCode, e.OOMKilled, e.RequestedStop = with.Request.Exit.ExitCode, with.Request.Exit.OOMKilled, with.Request.Exit.RequestedStop
	}
	return e, true
}

func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
