//go:build linux

package controlserver_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/probe"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// containerd/containerd#8856, containerd/rust-extensions#218, cri-o/cri-o#3771: a restart of the daemon orphaned the command's pipes, or
// killed it by EPIPE.
func TestServerKilledUnderARunningCommandLosesNothing(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	before, err := c.Hello(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	exec := begin(t, c, shell(`i=0; while [ ! -e go ]; do echo $i; i=$((i+1)); done; echo "end $i"; exit 3`))
	for round := range 5 {
		at := listed(t, c, exec.id).GetStdoutEnd()
		was := m.ServerPID()
		m.KillServer()
		eventually(t, fmt.Sprintf("output after kill %d", round), func() bool {
			return m.ServerPID() != was && listed(t, c, exec.id).GetStdoutEnd() > at
		})
	}
	run(t, c, shell("touch go"))
	got := exec.wait(t)
	lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
	for i, line := range lines[:len(lines)-1] {
		if line != fmt.Sprint(i) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
	if want := fmt.Sprintf("end %d", len(lines)-1); got.Exit.GetCode() != 3 || lines[len(lines)-1] != want {
		t.Fatalf("got %v, %q, want %q", got.Exit, lines[len(lines)-1], want)
	}
	after, err := c.Hello(limited(t))
	if err != nil || after.GetEpoch() != before.GetEpoch() || after.GetServerInstance() == before.GetServerInstance() {
		t.Fatalf("got %v, %v", after, err)
	}
}

func TestCommandThatEndsWhileThereIsNoServerIsToldRight(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	for range 10 {
		exec := begin(t, c, shell(`echo before; while kill -0 "$1" 2>/dev/null; do :; done; echo after; exit 6`, fmt.Sprint(m.ServerPID())))
		was := m.ServerPID()
		m.KillServer()
		if got := exec.wait(t); got.stdout != "before\nafter\n" || got.Exit.GetCode() != 6 {
			t.Fatalf("got %q, %v", got.stdout, got.Exit)
		}
		eventually(t, "the next server", func() bool { return m.ServerPID() != was })
	}
}

func TestRetryOfAStartAcrossAKillRunsOnce(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	// Each server may finish one command, and dies some moments later, by turns up to 70 ms: kills by the
	// clock alone would leave a busy computer no time between two.
	done := make(chan struct{}, 1)
	kills := 0
	var killer sync.WaitGroup
	stop := sync.OnceFunc(func() { close(done); killer.Wait() })
	defer stop()
	killer.Go(func() {
		for range done {
			moment := time.NewTimer(time.Duration(kills%15) * 5 * time.Millisecond)
			<-moment.C
			m.KillServer()
			kills++
		}
	})
	for i := range 100 {
		got := run(t, c, shell(`echo "$1" >>count; echo "out $1"; exit $(($1 % 100))`, fmt.Sprint(i)))
		if got.stdout != fmt.Sprintf("out %d\n", i) || int(got.Exit.GetCode()) != i%100 {
			t.Fatalf("command %d: %q, %v", i, got.stdout, got.Exit)
		}
		select {
		case done <- struct{}{}:
		default:
		}
	}
	stop()
	if kills < 10 {
		t.Fatalf("only %d kills", kills)
	}
	var want strings.Builder
	for i := range 100 {
		fmt.Fprintln(&want, i)
	}
	if got := run(t, c, shell("cat count")); got.stdout != want.String() {
		t.Fatalf("ran %q", got.stdout)
	}
}

func TestLongStreamUnderKillsIsHashEqual(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	const size = 128 << 20
	// A stream whose every byte depends on its place.
	const script = `yes 0123456789abcdefghijklmnopqrstuvwxyz | head -c "$1"`
	sink := &hashSink{sum: sha256.New(), kill: func(at uint64) { m.KillServer() }, every: 8 << 20}
	spec := shell(script, fmt.Sprint(size))
	spec.StdoutCapBytes = 2 * size
	got, err := c.Run(limited(t), client.Command{Spec: spec, Follow: client.Follow{Patience: time.Minute}}, sink)
	if err != nil {
		t.Fatal(err)
	}
	want := sha256.New()
	local := exec.Command("sh", "-c", script, "sh", fmt.Sprint(size))
	local.Stdout = want
	if err := local.Run(); err != nil {
		t.Fatal(err)
	}
	if got.Exit.GetStdoutEnd() != size || !bytes.Equal(sink.sum.Sum(nil), want.Sum(nil)) || sink.kills < 5 {
		t.Fatalf("%d bytes of %d, %d kills, or other bytes", got.Exit.GetStdoutEnd(), size, sink.kills)
	}
}

// hashSink hashes stdout and calls kill every so many bytes.
type hashSink struct {
	sum   hash.Hash
	kill  func(at uint64)
	every uint64
	next  uint64
	kills int
}

func (s *hashSink) Started(*wirev1.Started) error { return nil }
func (s *hashSink) Gap(*wirev1.Gap) error         { return io.ErrUnexpectedEOF }
func (s *hashSink) Output(_ wirev1.Stream, offset uint64, data []byte) error {
	if s.next += 0; offset >= s.next && s.kill != nil {
		s.next = offset + s.every
		if offset > 0 {
			s.kill(offset)
			s.kills++
		}
	}
	_, err := s.sum.Write(data)
	return err
}

func TestServerThatCannotStartIsNotStartedForEver(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, probe.SocketName, "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := machinetest.Launch(t, machinetest.Options{Env: []string{"FLYFLEET_RUN=" + dir}})
	if err == nil || !strings.Contains(err.Error(), "control server does not start") {
		t.Fatalf("got %v", err)
	}
}

func TestQuiesceOutlivesTheServer(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	if a := ask(t, m, probe.Question{QuiesceMS: 60000}); a.Quiesce != "closed" {
		t.Fatalf("got %+v", a)
	}
	was := m.ServerPID()
	m.KillServer()
	eventually(t, "the next server", func() bool { return m.ServerPID() != was })
	if a := ask(t, m, probe.Question{}); a.State != "quiesced" {
		t.Fatalf("got %+v", a)
	}
	ask(t, m, probe.Question{Resume: true})
	m.KillServer()
	run(t, c, shell("true"))
}

func TestProbeFindsTheNextServer(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	for range 10 {
		m.KillServer()
		if a := ask(t, m, probe.Question{}); a.State != "serving" {
			t.Fatalf("got %+v", a)
		}
	}
}

func TestStopWhileTheServerIsDeadStillDrains(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	exec := begin(t, c, shell(`trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.1; done`))
	eventually(t, "the trap", func() bool { return listed(t, c, exec.id).GetStdoutEnd() == 6 })
	m.KillServer()
	m.Signal(15)
	if err := m.Wait(); err != nil {
		t.Fatalf("got %v\n%s", err, m.Log())
	}
	exec.cancel()
	record, err := os.ReadFile(filepath.Join(m.Data, "spool", "execs", exec.id, "state"))
	if err != nil || !strings.Contains(string(record), "MACHINE_STOPPING") {
		t.Fatalf("got %s, %v", record, err)
	}
}

// A keeper that died between taking an id and its record left an empty directory: the retry is told that
// the exec is lost, and not to try on and on.
func TestStartThatWasCutShortIsLostAndNeverRuns(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	id := newID(t)
	if err := os.Mkdir(filepath.Join(m.Data, "spool", "execs", id), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := c.Run(limited(t), client.Command{ID: id, Spec: shell("echo ran >ran")}, client.Writers(nil, nil))
		if err != nil || got.Lost.GetReason() != wirev1.LostReason_LOST_REASON_KEEPER_DIED || got.Reattached != 0 {
			t.Fatalf("got %v, %v, %v", got.Exit, got.Lost, err)
		}
	}
	if got := run(t, c, shell("cat ran")); got.stdout != "" {
		t.Fatal("it ran")
	}
}
