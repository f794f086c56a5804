package runnertest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/procs"
)

// Patience bounds every wait; nothing is asserted about time below it.
const Patience = 30 * time.Second

// Maker makes the runner under test.
type Maker func(ctx context.Context, cfg runner.Config) (runner.Runner, error)

// Lab is a runner with a place for machines and volumes.
type Lab struct {
	Runner runner.Runner
	Dir    string
	image  v1.Image
	digest string
	t      testing.TB
	count  int
}

// NewLab makes a runner in a directory that only its owner may enter, with host tools lent. At the test's end it
// closes the runner and asserts that no process of it is left.
func NewLab(t testing.TB, maker Maker) *Lab {
	t.Helper()
	l := &Lab{Dir: t.TempDir(), t: t}
	if err := os.Chmod(l.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := maker(t.Context(), runner.Config{
		StateDir: l.Dir, CacheDir: filepath.Join(l.Dir, "cache"), HostTools: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Runner = r
	t.Cleanup(l.close)
	l.image = Image(t, AppLayer(t))
	l.digest = Digest(t, l.image)
	return l
}

func (l *Lab) close() {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for _, kind := range []string{"machine", "volume"} {
		dirs, err := filepath.Glob(filepath.Join(l.Dir, kind+"-*"))
		if err != nil {
			l.t.Error(err)
		}
		for _, d := range dirs {
			remove := l.Runner.Cleanup
			if kind == "volume" {
				remove = l.Runner.RemoveVolume
			}
			if err := remove(ctx, d); err != nil {
				l.t.Errorf("remove %s: %v", d, err)
			}
			if _, err := os.Lstat(d); !errors.Is(err, os.ErrNotExist) {
				l.t.Errorf("%s is still there", d)
			}
		}
	}
	// A cached image may hold files of ids that this process has no right over.
	if err := l.Runner.RemoveVolume(ctx, filepath.Join(l.Dir, "cache")); err != nil {
		l.t.Errorf("remove the cache: %v", err)
	}
	if err := l.Runner.Close(); err != nil {
		l.t.Errorf("close the runner: %v", err)
	}
	Eventually(l.t, "every process of the runner is gone", func() bool {
		left, err := procs.Descendants(os.Getpid())
		return err == nil && len(left) == 0
	})
}

// Spec is a machine of the lab's image with a fresh directory, which runs the app's verb.
func (l *Lab) Spec(verb ...string) runner.Spec {
	l.t.Helper()
	l.count++
	id := "machine-" + strconv.Itoa(l.count)
	dir := filepath.Join(l.Dir, id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		l.t.Fatal(err)
	}
	return runner.Spec{
		App: "app", MachineID: id, InstanceID: "i1", Network: "net", Region: "ams", MemoryMB: 256, Dir: dir, Fresh: true,
		PrivateIP: netip.AddrFrom16([16]byte{0xfd, 0xaa, 12: byte(l.count >> 8), 13: byte(l.count), 15: 2}),
		ImageRef:  "registry.example/app@" + l.digest, Image: l.image, ImageDigest: l.digest,
		Argv: append([]string{AppPath, AppArg}, verb...),
	}
}

// Volume makes a volume's directory.
func (l *Lab) Volume(name string) runner.Mount {
	l.t.Helper()
	dir := filepath.Join(l.Dir, "volume-"+name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		l.t.Fatal(err)
	}
	return runner.Mount{VolumeID: name, VolumeDir: dir, Path: "/data"}
}

// Boot starts a machine and ends it with the test.
func (l *Lab) Boot(spec runner.Spec) runner.Instance {
	l.t.Helper()
	i, err := l.Runner.Start(l.t.Context(), spec)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := i.Kill(); err != nil && !errors.Is(err, runner.ErrDown) {
			l.t.Error(err)
		}
		i.Wait()
	})
	return i
}

// Serving boots a machine that serves on [::]:8080 and waits until it does.
func (l *Lab) Serving(spec runner.Spec) runner.Instance {
	l.t.Helper()
	i := l.Boot(spec)
	Connect(l.t, i).Close()
	return i
}

// Connect dials port 8080 until the machine accepts.
func Connect(t testing.TB, i runner.Instance) net.Conn {
	t.Helper()
	var conn net.Conn
	Eventually(t, "the machine accepts connections", func() bool {
		var err error
		conn, err = i.Dial(t.Context(), 8080)
		return err == nil
	})
	return conn
}

// Shell runs a script in the machine and returns its standard output; it must exit 0.
func Shell(t testing.TB, i runner.Instance, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	r, err := i.Exec(ctx, runner.ExecRequest{Argv: []string{"sh", "-c", script}})
	if err != nil || r.Code != 0 {
		t.Fatalf("%s: %v, exit %d: %s%s", script, err, r.Code, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(string(r.Stdout))
}

// Eventually waits for a condition.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(Patience)
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}
