package swap

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// ControlServer is where every image of ours keeps its control server.
const ControlServer = "/opt/flyfleet/bin/flyfleet-controlserver"

// quiesceFor is how long a closed door stays closed by itself: if we die, commands are refused no longer than that.
const quiesceFor = 60 * time.Second

// quiesceMargin is how much of it must be left when the update is sent.
const quiesceMargin = 15 * time.Second

func probeCommand() []string   { return []string{ControlServer, "probe", "--json"} }
func quiesceCommand() []string { return append(probeCommand(), "--quiesce", quiesceFor.String()) }
func resumeCommand() []string  { return append(probeCommand(), "--resume") }

// voice is who answered a probe.
type voice int

const (
	// absent: the image has no control server.
	absent voice = iota
	// silent: it has one, which did not answer. What runs is unknown.
	silent
	// answered: Status holds what it said.
	answered
)

// probe is the result of asking a machine's control server.
type probe struct {
	voice  voice
	said   probeStatus
	reason string // why it is silent or absent
}

type probeStatus struct {
	Wire struct {
		Min int `json:"min"`
		Max int `json:"max"`
	} `json:"wire"`
	Build   string `json:"build"`
	State   string `json:"state"`
	Spool   string `json:"spool"`
	Running int    `json:"running"`
	Quiesce string `json:"quiesce"`
}

// readProbe judges the result of an exec. An error is one of the API itself: the question could not be put.
func readProbe(r flyapi.ExecResult, err error) (probe, error) {
	if err != nil {
		if flyapi.IsTimeout(err) {
			return probe{voice: silent, reason: "the probe did not end in time"}, nil
		}
		if noSuchProgram(err) {
			return probe{voice: absent, reason: "the image has no control server"}, nil
		}
		return probe{}, err
	}
	switch r.ExitCode {
	case 0:
	case 126, 127: // what a shell says when it finds no program, or none that it may run
		return probe{voice: absent, reason: "the image has no control server"}, nil
	default:
		return probe{voice: silent, reason: fmt.Sprintf("the control server did not answer (probe exit %d: %s)", r.ExitCode, lastLine(r.Stderr))}, nil
	}
	p := probe{voice: answered}
	// What is no status at all leaves State empty.
	_ = json.Unmarshal([]byte(lastLine(r.Stdout)), &p.said)
	if p.said.State == "" {
		return probe{voice: silent, reason: "the probe printed no status"}, nil
	}
	return p, nil
}

// noSuchProgram reports an exec that Fly refused because the program is not in the image.
//
// Assumption: the text of that refusal is not documented; the words of Linux and of Go's os/exec are looked for.
func noSuchProgram(err error) bool {
	var e *flyapi.Error
	if !errors.As(err, &e) || e.Status == 0 || e.Status == 404 {
		return false
	}
	text := strings.ToLower(e.Text)
	return strings.Contains(text, "no such file") || strings.Contains(text, "executable file not found") || strings.Contains(text, "command not found")
}

// drained is what a quiesce question means for the swap.
type drained int

const (
	goAhead drained = iota // nothing runs, and nothing can start; or nobody is there to ask
	wait                   // something runs, or may run
)

// readQuiesce decides from a quiesce answer. With interrupt nothing is waited for.
func readQuiesce(p probe, busy Busy) (d drained, closed bool, reason string) {
	switch {
	case p.voice == absent:
		return goAhead, false, p.reason
	case p.voice == answered && p.said.Quiesce == "closed":
		return goAhead, true, ""
	case busy == BusyInterrupt:
		return goAhead, false, p.reason
	case p.voice == silent:
		// What cannot be asked may run something: never killed on a guess.
		return wait, false, p.reason
	}
	return wait, false, fmt.Sprintf("%d running command(s), state %s", p.said.Running, p.said.State)
}

// speaksOurWire reports whether the control server and this build share a version of the wire.
func (s probeStatus) speaksOurWire() bool {
	return s.Wire.Min <= wire.Version && wire.Version <= s.Wire.Max
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	if len(line) > 4096 {
		line = line[:4096]
	}
	return line
}
