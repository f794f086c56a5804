package cork

import (
	"encoding/binary"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// dataOf is a DATA frame with one envelope of a message.
func dataOf(t *testing.T, m proto.Message) []byte {
	t.Helper()
	message, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	envelope := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	return append([]byte{0, 0, byte(len(envelope)), 0, 0, 0, 0, 0, 1}, envelope...)
}

func TestOnlyTheLastEventOfAStreamWaitsForItsTrailers(t *testing.T) {
	for name, c := range map[string]struct {
		event *wirev1.Event
		held  bool
	}{
		"started":                  {&wirev1.Event{Event: &wirev1.Event_Started{Started: &wirev1.Started{Pid: 7}}}, false},
		"chunk":                    {&wirev1.Event{Event: &wirev1.Event_Chunk{Chunk: &wirev1.Chunk{Data: []byte("x")}}}, false},
		"gap":                      {&wirev1.Event{Event: &wirev1.Event_Gap{Gap: &wirev1.Gap{To: 7}}}, false},
		"beat":                     {&wirev1.Event{Event: &wirev1.Event_Beat{Beat: &wirev1.Beat{StdoutEnd: 7}}}, false},
		"exit":                     {&wirev1.Event{Event: &wirev1.Event_Exit{Exit: &wirev1.Exit{Code: 7}}}, true},
		"exit with nothing to say": {&wirev1.Event{Event: &wirev1.Event_Exit{Exit: &wirev1.Exit{}}}, true},
		"lost":                     {&wirev1.Event{Event: &wirev1.Event_Lost{Lost: &wirev1.Lost{StdoutEnd: 7}}}, true},
		"nothing":                  {&wirev1.Event{}, false},
	} {
		frame := dataOf(t, c.event)
		if moreComes(frame) != c.held {
			t.Errorf("%s: held is %v", name, !c.held)
		}
		for _, other := range [][]byte{frame[:len(frame)-1], append(frame[:len(frame):len(frame)], 0)} {
			if moreComes(other) {
				t.Errorf("%s: what is no whole frame is held", name)
			}
		}
		frame[4] = endStream
		if moreComes(frame) {
			t.Errorf("%s: held, though the stream has ended", name)
		}
	}
}

// updateOf is a WINDOW_UPDATE frame.
func updateOf(stream, by uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte{0, 0, 4, 8, 0}, stream), by)
}

func TestOnlyUpdatesOfWindowsAreTakenForThem(t *testing.T) {
	both := append(updateOf(0, 1<<20), updateOf(7, 300)...)
	for name, c := range map[string]struct {
		frames []byte
		by     int
		only   bool
	}{
		"of the connection": {updateOf(0, 1<<20), 0, true},
		"of a stream":       {updateOf(7, 1<<20), 1 << 20, true},
		"of both":           {both, 300, true},
		"of two streams":    {append(updateOf(7, 300), updateOf(9, 400)...), 700, true},
		"part of one":       {both[:20], 0, false},
		"a ping after one":  {append(updateOf(7, 300), 0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8), 0, false},
		"a reset":           {[]byte{0, 0, 4, 3, 0, 0, 0, 0, 7, 0, 0, 0, 8}, 0, false},
		"nothing":           {nil, 0, false},
	} {
		by, only := updated(c.frames)
		if only != c.only || only && by != c.by {
			t.Errorf("%s: got %d, %v", name, by, only)
		}
	}
}
