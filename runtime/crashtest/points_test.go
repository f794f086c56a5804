//go:build linux

package crashtest

import (
	"os"
	"path/filepath"
	"testing"
)

// points are the moments at which a replica dies, in the order in which a turn passes them.
func points() []string {
	all := []string{"claim.after"}
	for _, kind := range []string{
		"input_accepted", "turn_started", "model_requested", "model_delta", "model_completed", "model_aborted", "tool_called", "approval_requested",
		"approval_decided", "tool_started", "exec_started", "exec_exited", "tool_result", "terminalize", "submission_settled",
	} {
		all = append(all, "commit.before."+kind, "commit.after."+kind)
	}
	return append(
		all, "model.answered", "effect.before", "exec.start.before", "exec.start.after", "output.after", "effect.after", "park.before",
		"park.after", "release.after",
	)
}

// shortly are those of the short form: one of each kind of window.
func shortly() []string {
	return []string{
		"claim.after", "model.answered", "commit.after.model_completed", "commit.after.approval_decided", "commit.after.exec_started",
		"exec.start.after", "output.after", "effect.after", "commit.after.tool_result", "commit.after.terminalize",
	}
}

// Three calls at once, a card, a model that fails, and the owner dies between any two of the steps: each call has one result, none is
// had again, and the model is never shown a call without one (it would be refused). OpenHands/software-agent-sdk#2298,
// OpenHands/software-agent-sdk#4487, GEMISIS/leviath#96, letta-ai/letta#3308, earendil-works/pi#4189.
func TestKilledAtEveryPoint(t *testing.T) {
	m := startFleet(t).machine("tenant")
	where := shortly()
	if long() {
		where = points()
	}
	// The subtests run beside each other, and end before the machine does.
	t.Run("points", func(t *testing.T) {
		for _, point := range where {
			t.Run(point, func(t *testing.T) {
				t.Parallel()
				dies(t, m, point, 1)
			})
			if long() {
				t.Run(point+" twice", func(t *testing.T) {
					t.Parallel()
					dies(t, m, point, 2)
				})
			}
		}
	})
}

// dies lets so many replicas die at a point, one after the other, and the next one finish. A point that the first has put
// behind it for good, the second does not come to.
func dies(t *testing.T, m *computer, point string, times int) {
	x := newTrial(t, m)
	for n := range times {
		r := x.start(point)
		if died := r.diesOrSettles(); !died {
			if n == 0 {
				t.Fatalf("the point was not reached:\n%v\n%s", x.kinds(), r.log.String())
			}
			r.stop()
			x.disarm(point)
			break
		}
		if _, err := os.Stat(filepath.Join(x.crashes, point)); !os.IsNotExist(err) {
			t.Fatalf("a replica died elsewhere than at %s:\n%s", point, r.log.String())
		}
	}
	x.finish()
}

func (x *trial) disarm(point string) {
	if err := os.Remove(filepath.Join(x.crashes, point)); err != nil && !os.IsNotExist(err) {
		x.t.Fatal(err)
	}
}
