// Package sandbox_test measures a machine's sandbox over the wire against floors taken in the same run: make bench-sandbox.
package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/bench/control"
	"github.com/flyfleet/terraform-provider-flyfleet/bench/figure"
	"github.com/flyfleet/terraform-provider-flyfleet/bench/floor"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/remote"
)

// Rounds that are taken of each figure, floor and sandbox in turn, so that a neighbour's load meets both: more of what is short.
const (
	rounds      = 7
	shortRounds = 25
)

func TestMain(m *testing.M) { os.Exit(figure.Main(m)) }

// box is the sandbox of a control server that runs until the benchmark ends.
type box struct {
	*remote.Sandbox

	calls *calls
	dir   string // its directory, as this computer sees it
}

func open(b *testing.B) *box {
	b.Helper()
	return openOn(b, control.Start(b))
}

func openOn(b *testing.B, c *control.Control) *box {
	b.Helper()
	counted := &calls{}
	options := c.Options()
	options.Dial = counted.around(options.Dial)
	dir := filepath.Join(c.Data, "workspace")
	s, err := remote.New(remote.Options{Machine: options, Dir: dir, Wait: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return &box{Sandbox: s, calls: counted, dir: dir}
}

// took is how long a call that must end well took.
func took(b *testing.B, call func() error) float64 {
	b.Helper()
	begin := time.Now()
	if err := call(); err != nil {
		b.Fatal(err)
	}
	return figure.Milliseconds(time.Since(begin))
}

// against measures a call and its floor in turn.
func against(b *testing.B, name string, rounds int, call, bare func() error) {
	b.Helper()
	var values, floors []float64
	for round := range rounds + 1 {
		f, v := took(b, bare), took(b, call)
		if round > 0 { // the first only warms both up
			floors, values = append(floors, f), append(values, v)
		}
	}
	figure.Report(name, figure.Median(values), "ms", figure.Median(floors))
}

// exec is the floor of what is one exec at best.
func (x *box) exec(ctx context.Context) func() error {
	return func() error {
		r, err := x.Exec(ctx, sandbox.Command{Argv: []string{"/bin/sh", "-c", "true"}})
		if err == nil && r.Code != 0 {
			err = fmt.Errorf("exit code %d", r.Code)
		}
		return err
	}
}

func files(dir string, n, size int) ([]sandbox.File, []string) {
	list, names := make([]sandbox.File, n), make([]string, n)
	for i := range list {
		names[i] = fmt.Sprintf("%s/%d", dir, i)
		list[i] = sandbox.File{Name: names[i], Content: bytes.Repeat([]byte{byte(i)}, size)}
	}
	return list, names
}

func (x *box) writeAll(ctx context.Context, list []sandbox.File) error {
	errs, err := x.WriteFiles(ctx, list)
	for _, e := range errs {
		if err == nil {
			err = e
		}
	}
	return err
}

// BenchmarkStat prints stat200: StatMany of 200 files. The floor is one exec over the same wire.
func BenchmarkStat(b *testing.B) {
	x := open(b)
	list, names := files("small", 200, 1)
	if err := x.writeAll(b.Context(), list); err != nil {
		b.Fatal(err)
	}
	against(b, "stat200", shortRounds, func() error {
		stated, err := x.StatMany(b.Context(), names)
		for _, s := range stated {
			if err == nil {
				err = s.Err
			}
		}
		return err
	}, x.exec(b.Context()))
}

// BenchmarkMuch prints write_100MiB and read_100MiB: a whole file. The floor is a copy on the same disk.
func BenchmarkMuch(b *testing.B) {
	x := open(b)
	content := make([]byte, 100<<20)
	rand.NewChaCha8([32]byte{}).Read(content) //nolint:errcheck // never fails
	source, copied := filepath.Join(b.TempDir(), "source"), filepath.Join(filepath.Dir(x.dir), "copied")
	if err := os.WriteFile(source, content, 0o644); err != nil {
		b.Fatal(err)
	}
	bare := func() error {
		_, err := floor.Copy(source, copied)
		return err
	}
	against(b, "write_100MiB", rounds, func() error {
		return x.WriteFile(b.Context(), "much", content, sandbox.WriteOptions{})
	}, bare)
	against(b, "read_100MiB", rounds, func() error {
		got, err := x.ReadFile(b.Context(), "much", sandbox.Part{})
		if err == nil && !bytes.Equal(got, content) {
			err = fmt.Errorf("%d bytes that differ", len(got))
		}
		return err
	}, bare)
}

// BenchmarkList prints list_10000: ReadDir. The floor reads the directory and looks at each entry.
func BenchmarkList(b *testing.B) {
	const many = 10000
	x := open(b)
	if err := x.Mkdir(b.Context(), "list", sandbox.MkdirOptions{}); err != nil {
		b.Fatal(err)
	}
	dir := filepath.Join(x.dir, "list")
	for i := range many {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%05d", i)), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	against(b, "list_10000", rounds, func() error {
		infos, err := x.ReadDir(b.Context(), "list")
		if err == nil && len(infos) != many {
			err = fmt.Errorf("%d entries", len(infos))
		}
		return err
	}, func() error {
		n, _, err := floor.List(dir)
		if err == nil && n != many {
			err = fmt.Errorf("%d entries", n)
		}
		return err
	})
}

// BenchmarkRoundTrips prints roundtrips_VERB: how many calls of the wire a verb waits for. The floor is one.
func BenchmarkRoundTrips(b *testing.B) {
	x := open(b)
	ctx := b.Context()
	list, names := files("small", 200, 1<<10)
	var tree bytes.Buffer
	for _, verb := range []struct {
		name string
		call func() error
	}{
		{"exec", x.exec(ctx)},
		{"write", func() error { return x.WriteFile(ctx, "f", []byte("f"), sandbox.WriteOptions{}) }},
		{"read", func() error { _, err := x.ReadFile(ctx, "f", sandbox.Part{}); return err }},
		{"stat", func() error { _, err := x.Stat(ctx, "f"); return err }},
		{"exists", func() error { _, err := x.Exists(ctx, "f"); return err }},
		{"mkdir", func() error { return x.Mkdir(ctx, "d", sandbox.MkdirOptions{}) }},
		{"remove", func() error { return x.Remove(ctx, "d", sandbox.RemoveOptions{}) }},
		{"write_files", func() error { return x.writeAll(ctx, list) }},
		{"stat_many", func() error { _, err := x.StatMany(ctx, names); return err }},
		{"read_files", func() error { _, err := x.ReadFiles(ctx, names, 0); return err }},
		{"readdir", func() error { _, err := x.ReadDir(ctx, "small"); return err }},
		{"read_tree", func() error { return x.ReadTree(ctx, "small", &tree, sandbox.TreeOptions{}) }},
		{"write_tree", func() error { return x.WriteTree(ctx, "copy", &tree, sandbox.TreeOptions{}) }},
	} {
		before := x.calls.waited.Load()
		took(b, verb.call)
		n := x.calls.waited.Load() - before
		fmt.Fprintf(os.Stdout, "\nBENCH roundtrips_%s %d count floor=1 ratio=%d\n", verb.name, n, n)
	}
}
