// Package wire_test measures the wire against floors taken in the same run: make bench-wire.
package wire_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	ctl "github.com/flyfleet/terraform-provider-flyfleet/bench/control"
	"github.com/flyfleet/terraform-provider-flyfleet/bench/figure"
	"github.com/flyfleet/terraform-provider-flyfleet/bench/floor"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// rounds are taken of each figure, floor and wire in turn, so that a neighbour's load meets both.
const rounds = 5

func TestMain(m *testing.M) { os.Exit(figure.Main(m)) }

// control is the server under measure.
type control struct{ *ctl.Control }

func start(b *testing.B) *control {
	b.Helper()
	return &control{ctl.Start(b)}
}

func spec(argv ...string) *wirev1.ExecSpec {
	s := &wirev1.ExecSpec{}
	for _, a := range argv {
		s.Argv = append(s.Argv, []byte(a))
	}
	return s
}

// run runs a command to its good end; anything else fails the benchmark.
func (c *control) run(ctx context.Context, s *wirev1.ExecSpec, sink client.Sink) (client.Result, error) {
	r, err := c.Client.Run(ctx, client.Command{Spec: s, Follow: client.Follow{Wait: time.Minute}}, sink)
	switch {
	case err != nil:
		return r, err
	case r.Exit == nil || r.Exit.GetCode() != 0 || r.Exit.GetSignal() != 0:
		return r, fmt.Errorf("exec ended with %v, %v", r.Exit, r.Lost)
	case len(r.Gaps) > 0:
		return r, fmt.Errorf("exec has gaps: %v", r.Gaps)
	}
	return r, nil
}

// BenchmarkExecStart prints exec_start_p50: from the call to the exit record of `/bin/sh -c true`, on an
// open connection. The floor is os/exec.
func BenchmarkExecStart(b *testing.B) {
	const each = 60
	c := start(b)
	var values, floors []float64
	for round := range rounds + 1 {
		var wire, bare []float64
		for range each {
			d, err := floor.Run(b.Context(), "/bin/sh", "-c", "true")
			if err != nil {
				b.Fatal(err)
			}
			bare = append(bare, figure.Milliseconds(d))
			begin := time.Now()
			if _, err := c.run(b.Context(), spec("/bin/sh", "-c", "true"), client.Writers(nil, nil)); err != nil {
				b.Fatal(err)
			}
			wire = append(wire, figure.Milliseconds(time.Since(begin)))
		}
		if round > 0 { // the first only warms both up
			values, floors = append(values, figure.Median(wire)), append(floors, figure.Median(bare))
		}
	}
	figure.Report("exec_start_p50", figure.Median(values), "ms", figure.Median(floors))
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

// BenchmarkStream prints stream_1GiB: output of one command through spool and connection. The floor reads
// the same command through a bare pipe.
func BenchmarkStream(b *testing.B) {
	const size = 1 << 30
	c := start(b)
	command := []string{"head", "-c", strconv.Itoa(size), "/dev/zero"}
	stream := spec(command...)
	if hello, err := c.Client.Hello(b.Context()); err != nil {
		b.Fatal(err)
	} else if most := hello.GetLimits().GetMaxCapBytes(); most > 0 {
		stream.StdoutCapBytes = min(most, 2*size)
	}
	rate := func(n int64, d time.Duration) float64 {
		if n != size {
			b.Fatalf("%d bytes of %d", n, size)
		}
		return float64(n) / 1e6 / d.Seconds()
	}
	var values, floors []float64
	for range rounds {
		n, d, err := floor.Pipe(b.Context(), command[0], command[1:]...)
		if err != nil {
			b.Fatal(err)
		}
		floors = append(floors, rate(n, d))
		var got counter
		begin := time.Now()
		r, err := c.run(b.Context(), stream, client.Writers(&got, nil))
		if err != nil {
			b.Fatal(err)
		}
		values = append(values, rate(got.n, time.Since(begin)))
		// Its file goes, so that the next round finds the disk as this one did.
		_, _ = c.Client.Forget(b.Context(), r.ID)
	}
	figure.Report("stream_1GiB", figure.Median(values), "MB/s", figure.Median(floors))
}

// BenchmarkSleep prints sleep100: a hundred commands that wait, at once, on one connection.
func BenchmarkSleep(b *testing.B) {
	const many = 100
	c := start(b)
	var values, floors []float64
	for range rounds {
		d, err := floor.Together(b.Context(), many, "/bin/sh", "-c", "sleep 0.5; echo")
		if err != nil {
			b.Fatal(err)
		}
		floors = append(floors, figure.Milliseconds(d))
		begin := time.Now()
		c.together(b, many, func(int) (*wirev1.ExecSpec, string) { return spec("/bin/sh", "-c", "sleep 0.5; echo"), "\n" })
		values = append(values, figure.Milliseconds(time.Since(begin)))
	}
	figure.Report("sleep100", figure.Median(values), "ms", figure.Median(floors))
}

// BenchmarkThousand prints execs_1000: how many of a thousand commands, at once on one connection, ended
// with the code and the output that they should.
func BenchmarkThousand(b *testing.B) {
	const many = 1000
	c := start(b)
	for range rounds {
		c.together(b, many, func(i int) (*wirev1.ExecSpec, string) {
			return spec("/bin/sh", "-c", `echo "$0"`, strconv.Itoa(i)), strconv.Itoa(i) + "\n"
		})
	}
	if n := c.Dials.Load(); n != 1 {
		b.Fatalf("%d connections were opened, not 1", n)
	}
	fmt.Fprintf(os.Stdout, "\nBENCH execs_1000 %d count floor=- ratio=-\n", many)
}

// together runs commands at once; each must end well and print what it should.
func (c *control) together(b *testing.B, n int, command func(i int) (*wirev1.ExecSpec, string)) {
	b.Helper()
	failures := make([]error, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			s, want := command(i)
			var out bytes.Buffer
			if _, failures[i] = c.run(b.Context(), s, client.Writers(&out, nil)); failures[i] == nil && out.String() != want {
				failures[i] = fmt.Errorf("exec %d printed %q, not %q", i, out.String(), want)
			}
		})
	}
	wait.Wait()
	for i, err := range failures {
		if err != nil {
			b.Fatalf("command %d: %v", i, err)
		}
	}
}

// BenchmarkIdleMemory prints idle_memory: PSS of keeper and server of a machine that has run one command.
func BenchmarkIdleMemory(b *testing.B) {
	var values []float64
	for range rounds {
		c := start(b)
		if _, err := c.run(b.Context(), spec("/bin/sh", "-c", "true"), client.Writers(nil, nil)); err != nil {
			b.Fatal(err)
		}
		values = append(values, float64(pss(b, c.Keeper)+pss(b, c.Server))/(1<<20))
	}
	fmt.Fprintf(os.Stdout, "\nBENCH idle_memory %.1f MiB floor=- ratio=-\n", figure.Median(values))
}
