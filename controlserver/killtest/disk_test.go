package killtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// fill writes until not one byte more fits.
const fill = `dd if=/dev/zero of=fill bs=1M 2>/dev/null; dd if=/dev/zero of=fill bs=4k oflag=append conv=notrunc 2>/dev/null
dd if=/dev/zero of=fill bs=1 oflag=append conv=notrunc 2>/dev/null; ! echo x >>fill`

// A full volume is the one from which something must be removed: commands run, their codes arrive, and
// offsets do not lie, also when servers die meanwhile.
func TestFullDiskStillRunsCommands(t *testing.T) {
	for _, v := range volumes() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			m := startOn(t, v)
			ctx := limited(t, 5*time.Minute)
			c := m.Client(machinetest.ClientOptions{})
			if got := runOn(ctx, t, c, "echo before", 0); got != "before\n" {
				t.Fatalf("got %q", got)
			}
			long := begin(ctx, t, c, newID(), &wirev1.ExecSpec{Argv: words("sh", "-c", "while [ ! -e go ]; do sleep 0.1; done; echo after; exit 6")})
			runOn(ctx, t, c, fill, 0)
			for code := range 20 {
				runOn(ctx, t, c, fmt.Sprintf("echo output; exit %d", code), code)
				if code%5 == 4 {
					m.fell(ctx, t)
				}
			}
			printsOn(ctx, t, m, c)
			// What was collected for want of room has made some.
			runOn(ctx, t, c, fill, 0)
			runOn(ctx, t, c, "rm fill", 0)
			runOn(ctx, t, c, "touch go", 0)
			<-long.done
			if err := errors.Join(long.err, right(long.got, 6)); err != nil || long.out.String() != "after\n" {
				t.Fatalf("got %q, %v", long.out.String(), err)
			}
			if got := runOn(ctx, t, c, "echo again", 0); got != "again\n" {
				t.Fatalf("got %q", got)
			}
		})
	}
}

func words(list ...string) [][]byte {
	var argv [][]byte
	for _, w := range list {
		argv = append(argv, []byte(w))
	}
	return argv
}

// runOn runs a script and demands its code; its output may be left out for want of room, and is told so.
func runOn(ctx context.Context, t *testing.T, c *client.Client, script string, code int) string {
	t.Helper()
	var out, errs bytes.Buffer
	got, err := c.Run(ctx, client.Command{Spec: &wirev1.ExecSpec{Argv: words("sh", "-c", script)}, Follow: patient}, client.Writers(&out, &errs))
	got.Gaps, err = without(got.Gaps, err)
	if err == nil {
		err = right(got, int32(code))
	}
	if err != nil {
		t.Fatalf("%.40q: %v: %s", script, err, errs.String())
	}
	return out.String()
}

func without(gaps []*wirev1.Gap, err error) ([]*wirev1.Gap, error) {
	for _, g := range gaps {
		if g.GetReason() != wirev1.GapReason_GAP_REASON_DISK_FULL && g.GetReason() != wirev1.GapReason_GAP_REASON_QUOTA {
			return nil, errors.Join(err, fmt.Errorf("a gap: %v", g))
		}
	}
	return nil, err
}

// printsOn has a command print more than could ever be stored, under kills. Where a stream ends never
// moves back, and in the end says no less than was printed.
func printsOn(ctx context.Context, t *testing.T, m *machine, c *client.Client) {
	t.Helper()
	const lines = 8_000_000
	id := newID()
	sink := &gapSink{}
	murder, pardon := context.WithCancel(ctx)
	k := newKiller(m)
	killed, watched := make(chan error, 1), make(chan error, 1)
	go func() { killed <- k.run(murder) }()
	go func() { watched <- watchEnd(murder, c, id) }()
	spec := &wirev1.ExecSpec{Argv: words("sh", "-c", `seq 10000000 "$1"; exit 9`, "sh", strconv.Itoa(firstLine+lines-1))}
	got, err := c.Run(ctx, client.Command{ID: id, Spec: spec, Follow: patient}, sink)
	pardon()
	if err := errors.Join(err, <-killed, <-watched); err != nil {
		t.Fatal(err)
	}
	printed := numbered{"\n"}.lines(lines)
	kills, _ := k.sum(0)
	if end := got.Exit.GetStdoutEnd(); got.Exit.GetCode() != 9 || end < printed || sink.end != end {
		t.Fatalf("printed %d, took to %d, %v", printed, sink.end, got.Exit)
	}
	t.Logf("%d bytes printed under %d kills, %d not stored, in %d gaps", printed, kills, sink.gaps, len(got.Gaps))
}

// gapSink counts bytes and gaps, which follow one another.
type gapSink struct{ end, gaps uint64 }

func (s *gapSink) Started(*wirev1.Started) error { return nil }

func (s *gapSink) Output(_ wirev1.Stream, offset uint64, data []byte) error {
	if offset != s.end {
		return fmt.Errorf("bytes at %d, want %d", offset, s.end)
	}
	s.end += uint64(len(data))
	return nil
}

func (s *gapSink) Gap(g *wirev1.Gap) error {
	if g.GetFrom() != s.end || g.GetTo() <= s.end {
		return fmt.Errorf("a gap %v at %d", g, s.end)
	}
	s.gaps += g.GetTo() - s.end
	s.end = g.GetTo()
	return nil
}

// watchEnd looks at where an exec's output ends, again and again.
func watchEnd(ctx context.Context, c *client.Client, id string) error {
	for end := uint64(0); pause(ctx, 5*time.Millisecond); {
		answer, err := c.RPC().List(ctx, connect.NewRequest(&wirev1.ListRequest{Scope: machinetest.Scope}))
		if err != nil {
			// No server answers at this moment.
			continue
		}
		for _, e := range answer.Msg.GetExecs() {
			if e.GetExecId() != id {
				continue
			}
			if e.GetStdoutEnd() < end {
				return fmt.Errorf("the end of the output moved back from %d to %d", end, e.GetStdoutEnd())
			}
			end = e.GetStdoutEnd()
		}
	}
	return nil
}

// A stream that was stored before the disk was full is read whole, while nothing more can be stored.
func TestFullDiskKeepsWhatIsStored(t *testing.T) {
	t.Parallel()
	m := startOn(t, volumes()[0])
	ctx := limited(t, 5*time.Minute)
	c := m.Client(machinetest.ClientOptions{})
	const lines = 200_000
	id := newID()
	spec := &wirev1.ExecSpec{Argv: words("seq", "10000000", strconv.Itoa(firstLine+lines-1))}
	if got, err := c.Run(ctx, client.Command{ID: id, Spec: spec, Follow: patient}, &numberedSink{numbered: numbered{"\n"}}); err != nil || right(got, 0) != nil {
		t.Fatalf("got %v, %v", got, err)
	}
	runOn(ctx, t, c, fill, 0)
	m.fell(ctx, t)
	sink := &numberedSink{numbered: numbered{"\n"}}
	got, err := c.Attach(ctx, id, patient, sink)
	if err := errors.Join(err, right(got, 0)); err != nil || sink.end != sink.lines(lines) {
		t.Fatalf("%d bytes, %v", sink.end, err)
	}
	// A fence is remembered, whatever the disk says.
	next := m.Client(machinetest.ClientOptions{Fence: 7})
	if _, err := next.RPC().List(ctx, connect.NewRequest(&wirev1.ListRequest{Scope: machinetest.Scope, Fence: 7})); err != nil {
		t.Fatalf("a higher fence: %v", err)
	}
	if _, err := c.Run(ctx, client.Command{Spec: spec}, client.Writers(nil, nil)); reason(err) != wirev1.ErrorReason_ERROR_REASON_FENCED {
		t.Fatalf("the old owner: %v", err)
	}
	if got := runOn(ctx, t, next, "rm fill; echo $?", 0); !strings.HasPrefix("0\n", got) {
		t.Fatalf("got %q", got)
	}
}
