//go:build linux

package keeper

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func samples() []*message {
	ended := &Ended{ID: "id", Cause: 4, Ended: spool.Ended{Code: 3, Signal: 9, Core: true, OutOfMemory: true, At: 1, UserUS: 2, SystemUS: 3, MaxRSS: 4}}
	return []*message{
		{kind: kindStart, seq: 7, order: &Order{
			ID: "id", Record: []byte("{}"), Argv: [][]byte{[]byte("a"), {}, []byte("\xff\x00")}, Env: [][]byte{[]byte("A=b")}, Dir: "/d",
			User: &User{UID: 1, GID: 2, Groups: []uint32{3, 4}}, Stdin: StdinPipe, Content: []byte("in"), Merge: true, Terminal: &Size{80, 24},
		}},
		{kind: kindStart, order: &Order{ID: "bare", Record: []byte{}, Argv: [][]byte{[]byte("x")}, Env: [][]byte{}, Content: []byte{}}},
		{kind: kindSignal, seq: 1 << 40, shot: &Shot{ID: "id", Signal: 15, Target: 3, Cause: 6}},
		{kind: kindRelease, id: "id"},
		{kind: kindCloseStdin, id: "id"},
		{kind: kindSweep, signal: 9},
		{kind: kindServing},
		{kind: kindStarted, receipt: &Receipt{PID: 5, StartedAt: 6, Volatile: true, Files: Files{expect: 0b10110001}}, text: "why"},
		{kind: kindStarted, receipt: &Receipt{Failure: &spool.Failure{Step: 3, Text: "no"}, StartedAt: 6}},
		{kind: kindStarted, receipt: &Receipt{Existed: true}},
		{kind: kindHit, hit: &Hit{Delivered: true, ReachedBy: 2, MayHaveEscaped: true}},
		{kind: kindDone, text: "error"},
		{kind: kindEnded, ended: ended},
		{kind: kindLive, live: &Live{ID: "id", PID: 1, StartedAt: 2, Files: Files{expect: 3}, Ended: ended}},
		{kind: kindLive, live: &Live{ID: "id", PID: 1, StartedAt: 2, Files: Files{expect: 3}}},
		{kind: kindEpoch, text: "epoch", signal: 2},
	}
}

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	for _, m := range samples() {
		got, err := decode(m.encode())
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("kind %d: got %+v, %v, want %+v", m.kind, got, err, m)
		}
	}
}

func TestCutOrLongerMessagesAreRefused(t *testing.T) {
	for _, m := range samples() {
		b := m.encode()
		for cut := range len(b) {
			if _, err := decode(b[:cut]); err == nil {
				t.Errorf("kind %d cut at %d was read", m.kind, cut)
			}
		}
		if _, err := decode(append(b, 0)); err == nil {
			t.Errorf("kind %d with a byte more was read", m.kind)
		}
	}
}

// Whatever comes: no panic, no memory beyond the message's own size, and what is read is written back
// as the same message.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(m.encode())
	}
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		again, err := decode(m.encode())
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
	})
}

func testLinks(t *testing.T) (*link, *link) {
	t.Helper()
	a, b, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll([]int{a, b}) })
	return newLink(a), newLink(b)
}

// hangUp ends both directions, as the death of that end's process does.
func hangUp(l *link) { _ = unix.Shutdown(l.fd, unix.SHUT_RDWR) }

func TestLargeMessagesAndDescriptorsCrossTheLink(t *testing.T) {
	a, b := testLinks(t)
	for _, size := range []int{0, mostInline - 200, mostInline, 2 << 20} {
		var fds [2]int
		if err := unix.Pipe(fds[:]); err != nil {
			t.Fatal(err)
		}
		sent := &message{kind: kindStart, seq: 3, order: &Order{ID: "id", Record: bytes.Repeat([]byte("r"), size), Argv: [][]byte{}, Env: [][]byte{}, Content: []byte{}}}
		failed := make(chan error, 1)
		go func() { failed <- a.write(sent, fds[1:]) }()
		got, received, err := b.read()
		if err := errors.Join(err, <-failed); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if !reflect.DeepEqual(got, sent) || len(received) != 1 {
			t.Fatalf("%d bytes: another message or %d descriptors", size, len(received))
		}
		if _, err := unix.Write(received[0], []byte("x")); err != nil {
			t.Fatal(err)
		}
		one := make([]byte, 1)
		if _, err := unix.Read(fds[0], one); err != nil || one[0] != 'x' {
			t.Fatalf("got %q, %v", one, err)
		}
		closeAll([]int{fds[0], fds[1], received[0]})
	}
}

func TestEndOfTheOtherProcessIsAnEnd(t *testing.T) {
	a, b := testLinks(t)
	hangUp(a)
	if _, _, err := b.read(); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v", err)
	}
	if err := b.write(&message{kind: kindServing}, nil); err == nil {
		t.Fatal("a message to nobody was sent")
	}
}

// An end that the runtime's poller watches never blocks in the kernel: what does not fit waits, and nothing is lost or mixed up.
func TestWatchedEndSendsAndReceivesAsAny(t *testing.T) {
	ours, theirs, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(ours) }()
	a, b := newLink(ours), newLink(theirs)
	if err := b.watch(); err != nil {
		t.Fatal(err)
	}
	defer b.file.Close()
	const many = 200
	send := func(l *link) <-chan error {
		failed := make(chan error, 1)
		go func() {
			for i := range many {
				err := l.write(&message{kind: kindStart, seq: uint64(i), order: &Order{ID: "id", Record: make([]byte, mostInline/2)}}, nil)
				if err != nil {
					failed <- err
					hangUp(l) // who reads waits no more
					return
				}
			}
			failed <- nil
		}()
		return failed
	}
	for name, way := range map[string]struct{ from, to *link }{"from it": {b, a}, "to it": {a, b}} {
		failed := send(way.from)
		for i := range many {
			m, _, err := way.to.read()
			if err != nil {
				t.Fatalf("%s: message %d: %v", name, i, errors.Join(err, <-failed))
			}
			if m.seq != uint64(i) || len(m.order.Record) != mostInline/2 {
				t.Fatalf("%s: message %d: %+v", name, i, m)
			}
		}
		if err := <-failed; err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	hangUp(a)
	if _, _, err := b.read(); !errors.Is(err, io.EOF) {
		t.Fatalf("after the end got %v", err)
	}
}

func TestReceivedFilesAreThoseAnnounced(t *testing.T) {
	f := Files{expect: 1<<fdStderr | 1<<fdStdinPipe}
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	if err := f.adopt(fds[:]); err != nil || f.Stderr == nil || f.StdinPipe == nil || f.Stdout != nil {
		t.Fatalf("got %+v, %v", f, err)
	}
	if f.mask() != 1<<fdStderr|1<<fdStdinPipe {
		t.Fatalf("got %b", f.mask())
	}
	f.Close()
	short := Files{expect: 3}
	if err := short.adopt(nil); err == nil {
		t.Fatal("files out of nothing")
	}
}

func TestNamesInProcStatMayHoldAnything(t *testing.T) {
	for stat, want := range map[string]process{
		"12 (sh) S 3 12 12 0 -1":         {12, 3, 12, false},
		"12 (a) b) (c) Z 4 1 9 0 -1":     {12, 4, 9, true},
		"12 (x S 1 2 3) R 5 6 7 0 -1":    {12, 5, 7, false},
		"12 (new\nline) S 3 12 12 0 -1 ": {12, 3, 12, false},
	} {
		if got, ok := parseStat(12, []byte(stat)); !ok || got != want {
			t.Errorf("%q: got %+v, %v", stat, got, ok)
		}
	}
	for _, stat := range []string{"", "12", "12 (sh)", "12 (sh) S", "12 (sh) S x y z"} {
		if _, ok := parseStat(12, []byte(stat)); ok {
			t.Errorf("%q was read", stat)
		}
	}
}

func TestTreeIsDescendantsAndSession(t *testing.T) {
	all := []process{{1, 0, 1, false}, {10, 1, 10, false}, {11, 10, 10, false}, {12, 11, 12, false}, {13, 1, 10, false}, {14, 13, 14, false}, {20, 1, 20, false}}
	got := below(all, 10, true)
	slices.Sort(got)
	if !slices.Equal(got, []int{11, 12, 13, 14}) {
		t.Fatalf("got %v", got)
	}
	if got := below(all, 10, false); !slices.Equal(got, []int{11, 12}) {
		t.Fatalf("got %v", got)
	}
}

func TestCgroupIsFoundWhereverItIsMounted(t *testing.T) {
	const hybrid = "22 1 0:20 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n" +
		"23 22 0:21 /docker/x /part rw - cgroup2 cgroup2 rw\n" +
		"24 22 0:21 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
	if got := cgroup2Mount(hybrid); got != "/sys/fs/cgroup/unified" {
		t.Fatalf("got %q", got)
	}
	if got := cgroup2Path("9:name=systemd:/x\n0::/a/b\n"); got != "/a/b" {
		t.Fatalf("got %q", got)
	}
	if cgroup2Mount("22 1 0:20 / / rw - ext4 /dev/vda rw\n") != "" || cgroup2Path("1:cpu:/\n") != "" {
		t.Fatal("found one where there is none")
	}
}

func TestPathIsTheChildsOwn(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"run": 0o755, "plain": 0o644} {
		if err := os.WriteFile(dir+"/"+name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	find := func(argv, path string) (string, wirev1.StartFailure) {
		got, f := lookup(&Order{Argv: [][]byte{[]byte(argv)}, Dir: dir, Env: [][]byte{[]byte("PATH=/first"), []byte("PATH=" + path)}})
		if f != nil {
			return got, f.Step
		}
		return got, 0
	}
	for _, x := range []struct {
		argv, path, want string
		step             wirev1.StartFailure
	}{
		{"run", "/none:" + dir, dir + "/run", 0},
		{"run", "", "", wirev1.StartFailure_START_FAILURE_NOT_FOUND},
		{"run", ":", dir + "/run", 0},
		{"plain", dir, "", wirev1.StartFailure_START_FAILURE_NOT_EXECUTABLE},
		{"./anything", dir, "./anything", 0},
	} {
		if got, step := find(x.argv, x.path); got != x.want || step != x.step {
			t.Errorf("%s in %q: got %q, %v", x.argv, x.path, got, step)
		}
	}
}

func TestOnlyARiseOfTheCountIsWantOfMemory(t *testing.T) {
	if _, err := os.Stat("/proc/vmstat"); err != nil {
		t.Fatalf("this kernel has no /proc/vmstat: %v", err)
	}
	b, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "\noom_kill ") {
		t.Fatal("this kernel counts no kills")
	}
	o := ooms{now: time.Now}
	if count := o.recent(); o.roseSince(count+1) || !o.roseSince(count-1) {
		t.Fatal("the count is read wrongly")
	}
}
