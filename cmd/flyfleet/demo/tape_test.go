package demo

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

func piece(offset int64, data string) *runtimev1.StreamEventsResponse {
	return &runtimev1.StreamEventsResponse{Event: &runtimev1.StreamEventsResponse_Output{Output: &runtimev1.Output{
		Stream: runtimev1.OutputStream_OUTPUT_STREAM_STDOUT, Offset: offset, RawLength: int64(len(data)), Data: []byte(data),
	}}}
}

// A demo that cannot fail proves nothing: each way to lose, repeat or change output is seen.
func TestTapeSeesWhatIsWrong(t *testing.T) {
	said := fmt.Sprintf(statementForm+"\n", 6, fmt.Sprintf("%x", sha256.Sum256([]byte("abcde\n"))), 1)
	for name, c := range map[string]struct {
		pieces      []*runtimev1.StreamEventsResponse
		gap, repeat int64
		err         string
	}{
		"whole":          {[]*runtimev1.StreamEventsResponse{piece(0, "abc"), piece(3, "de\n"), piece(6, said)}, 0, 0, ""},
		"hole":           {[]*runtimev1.StreamEventsResponse{piece(0, "abc"), piece(4, "e\n"), piece(5, said)}, 1, 0, "lacks 1 bytes"},
		"twice":          {[]*runtimev1.StreamEventsResponse{piece(0, "abc"), piece(0, "abc"), piece(6, "de\n"), piece(9, said)}, 0, 3, "3 twice"},
		"too much":       {[]*runtimev1.StreamEventsResponse{piece(0, "abcdef\n"), piece(7, said)}, 0, 1, "1 twice"},
		"something else": {[]*runtimev1.StreamEventsResponse{piece(0, "abcdX\n"), piece(6, said)}, 0, 0, "the hash"},
		"no last words":  {[]*runtimev1.StreamEventsResponse{piece(0, "abcde\n")}, 0, 0, "last words"},
	} {
		t.Run(name, func(t *testing.T) {
			tape := &tape{exited: &journalv1.ExecExited{}}
			for _, p := range c.pieces {
				if err := tape.take(p); err != nil {
					t.Fatal(err)
				}
			}
			gap, repeat, s, err := tape.verdict()
			if gap != c.gap || repeat != c.repeat || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("gap %d, twice %d, %v, %v", gap, repeat, s, err)
			}
		})
	}
}
