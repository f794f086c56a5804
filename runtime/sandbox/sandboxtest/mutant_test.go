package sandboxtest_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/local"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/sandboxtest"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/sandboxtest/confine"
)

func TestMain(m *testing.M) { confine.Main(m) }

// A suite that passes everything proves nothing: each mutant breaks one promise of a backend that keeps the
// contract, and the case that holds the promise must fail.
func TestEachBrokenBackendFailsItsCase(t *testing.T) {
	cases := map[string]sandboxtest.Case{}
	for _, c := range sandboxtest.Cases() {
		cases[c.String()] = c
	}
	if len(mutants) < 40 {
		t.Errorf("only %d backends are broken; the guide tells of more than 40", len(mutants))
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			c, is := cases[m.fails]
			if !is {
				t.Fatalf("the suite has no case %q", m.fails)
			}
			if failed, said := sandboxtest.Judge(t, harnessOf(t, nil), c); failed {
				t.Fatalf("the whole backend fails %q: %s", c, said)
			}
			h := harnessOf(t, m.wrap)
			// Some break a promise to end.
			h.Patience = 5 * time.Second
			failed, said := sandboxtest.Judge(t, h, c)
			if !failed {
				t.Fatalf("%q does not see it", c)
			}
			t.Log(said)
		})
	}
}

func harnessOf(t *testing.T, wrap func(sandbox.Sandbox) sandbox.Sandbox) sandboxtest.Harness {
	t.Helper()
	open := func(t testing.TB, dir string) sandbox.Sandbox {
		t.Helper()
		box, err := local.Open(local.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := box.Close(); err != nil {
				t.Error(err)
			}
		})
		if wrap == nil {
			return box
		}
		return wrap(box)
	}
	fresh := func(t testing.TB) sandbox.Sandbox { return open(t, t.TempDir()) }
	small, reason := confine.Small()
	if reason != "" {
		t.Fatal(reason)
	}
	return sandboxtest.Harness{
		Name: "mutant", Open: fresh, Denied: fresh,
		Full: func(t testing.TB) sandbox.Sandbox {
			dir, err := os.MkdirTemp(small, "full-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			return open(t, dir)
		},
	}
}

// view keeps a mutant a mutant on its views.
type view struct {
	sandbox.Sandbox

	wrap func(sandbox.Sandbox) sandbox.Sandbox
}

func (v view) In(dir string) sandbox.Sandbox  { return v.wrap(v.Sandbox.In(dir)) }
func (v view) Once(id string) sandbox.Sandbox { return v.wrap(v.Sandbox.Once(id)) }
func (v view) at(name string) string          { return filepath.Join(v.Dir(), name) }
func of(wrap func(view) sandbox.Sandbox) wrapper {
	var w wrapper
	w = func(box sandbox.Sandbox) sandbox.Sandbox { return wrap(view{box, w}) }
	return w
}

type wrapper = func(sandbox.Sandbox) sandbox.Sandbox

// The verbs that mutants change, each as a type with one function.
type (
	readsBy struct {
		view
		do func(view, context.Context, string, sandbox.Part) ([]byte, error)
	}
	writesBy struct {
		view
		do func(view, context.Context, string, []byte, sandbox.WriteOptions) error
	}
	statsBy struct {
		view
		do func(view, context.Context, string) (sandbox.Info, error)
	}
	existsBy struct {
		view
		do func(view, context.Context, string) (bool, error)
	}
	listsBy struct {
		view
		do func(view, context.Context, string) ([]sandbox.Info, error)
	}
	mkdirsBy struct {
		view
		do func(view, context.Context, string, sandbox.MkdirOptions) error
	}
	removesBy struct {
		view
		do func(view, context.Context, string, sandbox.RemoveOptions) error
	}
	execsBy struct {
		view
		do func(view, context.Context, sandbox.Command) (sandbox.Result, error)
	}
	startsBy struct {
		view
		do func(view, context.Context, sandbox.Command) (sandbox.Process, error)
	}
	forbidsBy struct {
		view
		do func(view, context.Context, string) (bool, error)
	}
	manyBy struct {
		view
		do func(view, context.Context, []string) ([]sandbox.Stated, error)
	}
	readTrees struct {
		view
		do func(view, context.Context, string, io.Writer, sandbox.TreeOptions) error
	}
	unpacksBy struct {
		view
		do func(view, context.Context, string, io.Reader, sandbox.TreeOptions) error
	}
	onceBy struct {
		view
		do func(view, string) sandbox.Sandbox
	}
)

func (m readsBy) ReadFile(ctx context.Context, n string, p sandbox.Part) ([]byte, error) {
	return m.do(m.view, ctx, n, p)
}

func (m writesBy) WriteFile(ctx context.Context, n string, b []byte, o sandbox.WriteOptions) error {
	return m.do(m.view, ctx, n, b, o)
}

func (m statsBy) Stat(ctx context.Context, n string) (sandbox.Info, error) {
	return m.do(m.view, ctx, n)
}

func (m existsBy) Exists(ctx context.Context, n string) (bool, error) { return m.do(m.view, ctx, n) }

func (m listsBy) ReadDir(ctx context.Context, n string) ([]sandbox.Info, error) {
	return m.do(m.view, ctx, n)
}

func (m mkdirsBy) Mkdir(ctx context.Context, n string, o sandbox.MkdirOptions) error {
	return m.do(m.view, ctx, n, o)
}

func (m removesBy) Remove(ctx context.Context, n string, o sandbox.RemoveOptions) error {
	return m.do(m.view, ctx, n, o)
}

func (m execsBy) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	return m.do(m.view, ctx, c)
}

func (m startsBy) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	return m.do(m.view, ctx, c)
}

func (m forbidsBy) Forbid(ctx context.Context, id string) (bool, error) { return m.do(m.view, ctx, id) }

func (m manyBy) StatMany(ctx context.Context, n []string) ([]sandbox.Stated, error) {
	return m.do(m.view, ctx, n)
}

func (m readTrees) ReadTree(ctx context.Context, n string, w io.Writer, o sandbox.TreeOptions) error {
	return m.do(m.view, ctx, n, w, o)
}

func (m unpacksBy) WriteTree(ctx context.Context, n string, r io.Reader, o sandbox.TreeOptions) error {
	return m.do(m.view, ctx, n, r, o)
}
func (m onceBy) Once(id string) sandbox.Sandbox { return m.do(m.view, id) }

// followsBy is a mutant whose processes are followed in another way.
func followsBy(do func(sandbox.Process, context.Context, sandbox.Offsets, func(sandbox.Output) error) (sandbox.Exit, error)) wrapper {
	return of(func(v view) sandbox.Sandbox {
		return startsBy{v, func(v view, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
			p, err := v.Start(ctx, c)
			return followed{p, do}, err
		}}
	})
}

type followed struct {
	sandbox.Process

	do func(sandbox.Process, context.Context, sandbox.Offsets, func(sandbox.Output) error) (sandbox.Exit, error)
}

func (f followed) Follow(ctx context.Context, from sandbox.Offsets, take func(sandbox.Output) error) (sandbox.Exit, error) {
	return f.do(f.Process, ctx, from, take)
}

// inPlace writes into the file that is there; by halves, with a moment between them.
func inPlace(halves bool) wrapper {
	return of(func(v view) sandbox.Sandbox {
		return writesBy{v, func(v view, _ context.Context, n string, b []byte, _ sandbox.WriteOptions) error {
			f, err := os.Create(v.at(n))
			if err != nil {
				return err
			}
			defer f.Close()
			half := len(b)
			if halves {
				half /= 2
			}
			_, err = f.Write(b[:half])
			if halves {
				<-time.After(2 * time.Millisecond)
			}
			_, err2 := f.Write(b[half:])
			return errors.Join(err, err2)
		}}
	})
}

// oneAtATime lets one follower in.
func oneAtATime() wrapper {
	var turn sync.Mutex
	return followsBy(func(p sandbox.Process, ctx context.Context, from sandbox.Offsets, take func(sandbox.Output) error) (sandbox.Exit, error) {
		turn.Lock()
		defer turn.Unlock()
		return p.Follow(ctx, from, take)
	})
}

// unpacksAnything makes what an archive says, wherever that is.
func unpacksAnything() wrapper {
	return of(func(v view) sandbox.Sandbox {
		return unpacksBy{v, func(v view, _ context.Context, n string, r io.Reader, _ sandbox.TreeOptions) error {
			for t := tar.NewReader(r); ; {
				h, err := t.Next()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
					return err
				}
				if err := unpackOne(filepath.Join(v.at(n), h.Name), h, t); err != nil {
					return err
				}
			}
		}}
	})
}

func unpackOne(path string, h *tar.Header, content io.Reader) error {
	mode := h.FileInfo().Mode()
	switch h.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(path, mode.Perm())
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close(), os.Chmod(path, mode))
}

// chatty tells its progress at every write.
type chatty struct {
	w    io.Writer
	tell func(int64)
	n    int64
}

func (c *chatty) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if c.n += int64(n); c.tell != nil {
		c.tell(c.n)
	}
	return n, err
}
