package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/remote"
)

// write makes a batch of name, content, name, content..., all of which must be written.
func write(t *testing.T, s sandbox.Sandbox, pairs ...string) {
	t.Helper()
	var files []sandbox.File
	for i := 0; i < len(pairs); i += 2 {
		files = append(files, sandbox.File{Name: pairs[i], Content: []byte(pairs[i+1])})
	}
	errs, err := s.WriteFiles(t.Context(), files)
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

func TestABatchOfWritesIsAsIfEachWereAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *machine, s *remote.Sandbox) {
		sees := func(what, script, want string) {
			t.Helper()
			if got := sh(t, s, "cd "+s.Dir()+"; "+script); got != want {
				t.Errorf("%s: got %q, want %q", what, got, want)
			}
			sh(t, s, "cd "+s.Dir()+"; [ -z \"$(find . -name '.flyfleet*')\" ]; rm -rf ./* ./.[!.]*")
		}
		sh(t, s, "cd "+s.Dir()+"; for m in 600 755 4755 000; do touch $m; chmod $m $m; done")
		write(t, s, "600", "", "755", "", "4755", "", "000", "", "new", "")
		sees("modes are kept", "stat -c %a 600 755 4755 000 new", "600\n755\n755\n0\n644\n")

		sh(t, s, "cd "+s.Dir()+"; mkdir a; ln -s a b; ln -s f l")
		write(t, s, "b/x", "1", "a/f", "1", "b/f", "2", "l", "1", "f", "2")
		sees("the last of several names of one file is what stays", "cat a/f f; readlink l", "22f\n")
		write(t, s, "f", "1", "./f", "2", "d/../f", "3", "d/x", "")
		sees("another spelling of a name", "cat f; ls", "3d\nf\n")
	})
}

func TestABatchOfWritesTellsEachItsError(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *machine, s *remote.Sandbox) {
		sh(t, s, "cd "+s.Dir()+"; mkdir dir; echo > file")
		long := strings.Repeat("n", 256)
		errs, err := s.WriteFiles(t.Context(), []sandbox.File{
			{Name: "a", Mode: 0o755}, {Name: "a/b"}, {Name: "dir"}, {Name: "dir/."}, {Name: "t/"}, {Name: long}, {Name: "file/x/y"}, {Name: "..."}, {Name: "*"}, {Name: ".hidden"},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []error{
			nil, syscall.ENOTDIR, syscall.EISDIR, syscall.EISDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.ENOTDIR, nil, nil, nil,
		}
		for i, e := range errs {
			if !errors.Is(e, want[i]) {
				t.Errorf("%d: got %v, want %v", i, e, want[i])
			}
		}
		if got := sh(t, s, "cd "+s.Dir()+"; stat -c %a a; ls -A"); got != "755\n*\n...\n.hidden\na\ndir\nfile\n" {
			t.Errorf("what is there: %q", got)
		}
	})
}

// stalled stops what is written after some bytes, until it is let go.
type stalled struct {
	net.Conn

	room *int64
	mu   *sync.Mutex
	free <-chan struct{}
}

func (c stalled) Write(p []byte) (int, error) {
	c.mu.Lock()
	*c.room -= int64(len(p))
	full := *c.room < 0
	c.mu.Unlock()
	if full {
		<-c.free
	}
	return c.Conn.Write(p)
}

// A batch that is killed in the middle cannot clean up after itself, one whose caller goes can.
func TestABatchOfWritesThatEndsInTheMiddleLeavesNothing(t *testing.T) {
	const killBatch = `for d in /proc/[0-9]*; do case "$(tr '\0' ' ' <"$d/cmdline" 2>/dev/null)" in "sh -c "*"rename""() {"*) kill -9 "${d#/proc/}" ;; esac; done; exit 0`
	onBoth(t, func(t *testing.T, m *machine, s *remote.Sandbox) {
		for _, c := range []struct {
			how  string
			dirs []string
		}{{"killed", []string{"", "d/"}}, {"killed", []string{"new/"}}, {"left", []string{"", "d/"}}, {"left", []string{"new/"}}} {
			how := c.how
			free := make(chan struct{})
			room := int64(3 << 20)
			o := m.options()
			dial, mu := o.Dial, &sync.Mutex{}
			o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return stalled{conn, &room, mu, free}, nil
			}
			slow := m.box(t, remote.Options{Machine: o, Dir: s.Dir()})
			sh(t, s, "cd "+s.Dir()+"; mkdir -p d; echo old > f0; echo old > d/f1")
			var files []sandbox.File
			for i := range 8 {
				files = append(files, sandbox.File{Name: fmt.Sprintf("%sf%d", c.dirs[i%len(c.dirs)], i), Content: bytes.Repeat([]byte("new"), 300_000)})
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := slow.WriteFiles(ctx, files)
				done <- err
			}()
			soon(t, "a file is being unpacked", func() bool { return sh(t, s, "ls "+s.Dir()+"/.flyfleet-*/f0 2>/dev/null || true") != "" })
			if how == "killed" {
				m.root(t, killBatch)
			} else {
				cancel()
			}
			close(free)
			err := <-done
			cancel()
			var unavailable *sandbox.UnavailableError
			if how == "killed" && !errors.As(err, &unavailable) || how == "left" && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v", how, err)
			}
			soon(t, "nothing is left of one that was "+how, func() bool {
				return sh(t, s, "cd "+s.Dir()+"; find . | sort; cat f0 d/f1") == ".\n./d\n./d/f1\n./f0\nold\nold\n"
			})
		}
	})
}
