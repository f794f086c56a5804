package ending_test

import (
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/ending"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func TestExitCodeIsWhatAShellWouldSay(t *testing.T) {
	exited, failed := wirev1.ExitCause_EXIT_CAUSE_EXITED, wirev1.ExitCause_EXIT_CAUSE_START_FAILED
	for name, c := range map[string]struct {
		result client.Result
		code   int
		note   string
	}{
		"zero":       {client.Result{Exit: &wirev1.Exit{Cause: exited}}, 0, ""},
		"code":       {client.Result{Exit: &wirev1.Exit{Cause: exited, Code: 7}}, 7, ""},
		"its own 2":  {client.Result{Exit: &wirev1.Exit{Cause: exited, Code: 2}}, 2, ""},
		"signal":     {client.Result{Exit: &wirev1.Exit{Cause: exited, Signal: 9}}, 137, ""},
		"not found":  {client.Result{Exit: &wirev1.Exit{Cause: failed, Code: 127, Message: "no such file"}}, 127, "start failed: no such file"},
		"timeout":    {client.Result{Exit: &wirev1.Exit{Cause: wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT, Signal: 15}}, 143, "wall timeout"},
		"lost":       {client.Result{Lost: &wirev1.Lost{Reason: wirev1.LostReason_LOST_REASON_MACHINE_RESTARTED}}, 125, "machine restarted"},
		"no ending":  {client.Result{}, 125, "did not say"},
		"lost bytes": {client.Result{Exit: &wirev1.Exit{Cause: exited}, Gaps: []*wirev1.Gap{{Stream: wirev1.Stream_STREAM_STDOUT, From: 3, To: 9, Reason: wirev1.GapReason_GAP_REASON_CAP}}}, 0, "did not keep bytes 3 to 9 of its stdout (cap)"},
	} {
		t.Run(name, func(t *testing.T) {
			code, note := ending.Verdict(c.result)
			if code != c.code || !strings.Contains(note, c.note) || (c.note == "") != (note == "") {
				t.Errorf("code %d, note %q; want %d and %q", code, note, c.code, c.note)
			}
		})
	}
}
