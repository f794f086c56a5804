package execute

import (
	"strings"
	"testing"

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
		"lost bytes": {client.Result{Exit: &wirev1.Exit{Cause: exited}, Gaps: []*wirev1.Gap{{Stream: wirev1.Stream_STREAM_STDOUT}}}, 0, "did not keep part of its stdout"},
	} {
		t.Run(name, func(t *testing.T) {
			code, note := verdict(c.result)
			if code != c.code || !strings.Contains(note, c.note) || (c.note == "") != (note == "") {
				t.Errorf("code %d, note %q; want %d and %q", code, note, c.code, c.note)
			}
		})
	}
}

func TestOutputThatIsNoTextIsEncoded(t *testing.T) {
	if plain, encoded := text([]byte("é\n")); plain != "é\n" || encoded != "" {
		t.Errorf("%q %q", plain, encoded)
	}
	if plain, encoded := text([]byte{0xff, 'a'}); plain != "" || encoded != "/2E=" {
		t.Errorf("%q %q", plain, encoded)
	}
}

func TestJSONOutputHasABound(t *testing.T) {
	var b bounded
	if _, err := b.Write(make([]byte, mostJSON)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write([]byte{0}); err == nil || !strings.Contains(err.Error(), "--json") {
		t.Errorf("error %v", err)
	}
}
