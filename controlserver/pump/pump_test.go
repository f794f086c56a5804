//go:build linux

package pump_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/pump"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// bench is a pump with a pipe of the test's own.
type bench struct {
	t       *testing.T
	spool   *spool.Spool
	id      string
	r, w    *os.File
	book    *spool.Book
	mu      sync.Mutex
	reason  wirev1.GapReason
	end     uint64
	stored  int64
	full    int
	hurried int
	done    chan error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	s, err := spool.Open(filepath.Join(dir, "spool"), filepath.Join(dir, "aside"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Create(id, false); err != nil {
		t.Fatal(err)
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		t.Fatal(err)
	}
	return &bench{
		t: t, spool: s, id: id, r: os.NewFile(uintptr(fds[0]), "r"), w: os.NewFile(uintptr(fds[1]), "w"),
		book: spool.NewBook(s, id, "out", spool.State{}), done: make(chan error, 1),
	}
}

func (b *bench) start(most uint64, policy wirev1.CapPolicy) *pump.Pump {
	b.t.Helper()
	p, err := pump.New(pump.Options{
		Pipe: b.r, Path: b.spool.File(b.id, "out"), Book: b.book, Cap: most, Policy: policy,
		Room: func() wirev1.GapReason { b.mu.Lock(); defer b.mu.Unlock(); return b.reason },
		Grown: func(end uint64) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.end = end
		},
		Stored: func(delta int64) { b.mu.Lock(); defer b.mu.Unlock(); b.stored += delta },
		Hurry:  func() { b.mu.Lock(); defer b.mu.Unlock(); b.hurried++ },
		Full:   func() { b.mu.Lock(); defer b.mu.Unlock(); b.full++ },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	go func() { b.done <- p.Run() }()
	return p
}

func (b *bench) write(data []byte) {
	b.t.Helper()
	if _, err := b.w.Write(data); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) finish() error {
	b.w.Close()
	return <-b.done
}

// read is the stream as a reader gets it, gaps as "[from-to]".
func (b *bench) read() string {
	b.t.Helper()
	f, err := os.Open(b.spool.File(b.id, "out"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	var out bytes.Buffer
	for at := uint64(0); at < b.end; {
		gap, until := b.book.At(at, b.end)
		if gap != nil {
			fmt.Fprintf(&out, "[%d-%d]", gap.From, gap.To)
			at = gap.To
			continue
		}
		if _, err := io.Copy(&out, io.NewSectionReader(f, int64(at), int64(until-at))); err != nil {
			b.t.Fatal(err)
		}
		at = until
	}
	return out.String()
}

func TestEveryByteGoesToTheFile(t *testing.T) {
	b := newBench(t)
	b.start(1<<30, 0)
	want := bytes.Repeat([]byte("0123456789abcdef"), 200000)
	b.write(want)
	if err := b.finish(); err != nil {
		t.Fatal(err)
	}
	if b.read() != string(want) || b.stored != int64(len(want)) {
		t.Fatalf("got %d of %d bytes, or others", b.end, len(want))
	}
}

func TestSilentCommandHasNoFile(t *testing.T) {
	b := newBench(t)
	b.start(1<<30, 0)
	if err := b.finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.spool.File(b.id, "out")); !os.IsNotExist(err) {
		t.Fatalf("got %v", err)
	}
}

func TestPumpGoesOnWhereTheFileEnds(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile(b.spool.File(b.id, "out"), []byte("before "), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start(1<<30, 0)
	b.write([]byte("after"))
	if err := b.finish(); err != nil {
		t.Fatal(err)
	}
	if got := b.read(); got != "before after" || b.end != 12 {
		t.Fatalf("got %q, end %d", got, b.end)
	}
}

func TestCapStopsAtItsByteAndCountsTheRest(t *testing.T) {
	for _, policy := range []wirev1.CapPolicy{wirev1.CapPolicy_CAP_POLICY_STOP_STORING, wirev1.CapPolicy_CAP_POLICY_KILL} {
		b := newBench(t)
		b.start(10, policy)
		b.write([]byte("0123456789abcdef"))
		b.write(bytes.Repeat([]byte("x"), 200000))
		if err := b.finish(); err != nil {
			t.Fatal(err)
		}
		if got := b.read(); got != "0123456789[10-200016]" || b.stored != 10 {
			t.Fatalf("%v: got %q, %d stored", policy, got, b.stored)
		}
		if want := int(policy-wirev1.CapPolicy_CAP_POLICY_STOP_STORING) / int(wirev1.CapPolicy_CAP_POLICY_KILL-wirev1.CapPolicy_CAP_POLICY_STOP_STORING); b.full != want {
			t.Fatalf("%v: told %d times", policy, b.full)
		}
	}
}

func TestNoRoomIsAGapAndRoomEndsIt(t *testing.T) {
	b := newBench(t)
	if err := b.book.Begin(0, wirev1.GapReason_GAP_REASON_QUOTA); err != nil {
		t.Fatal(err)
	}
	b.reason = wirev1.GapReason_GAP_REASON_QUOTA
	p := b.start(1<<30, 0)
	b.write([]byte("lost"))
	wait(t, func() bool { return !p.Pending() })
	b.mu.Lock()
	b.reason = wirev1.GapReason_GAP_REASON_UNSPECIFIED
	b.mu.Unlock()
	// Room is looked for every second.
	wait(t, func() bool {
		b.write([]byte("kept"))
		wait(t, func() bool { return !p.Pending() })
		return b.book.Gaping() == wirev1.GapReason_GAP_REASON_UNSPECIFIED
	})
	if err := b.finish(); err != nil {
		t.Fatal(err)
	}
	got := b.read()
	if !bytes.HasPrefix([]byte(got), []byte("[0-")) || !bytes.HasSuffix([]byte(got), []byte("]kept")) {
		t.Fatalf("got %q", got)
	}
}

func TestForgottenStreamIsDroppedUncounted(t *testing.T) {
	b := newBench(t)
	p := b.start(1<<30, 0)
	b.write([]byte("kept"))
	wait(t, func() bool { return !p.Pending() })
	p.Discard()
	b.write(bytes.Repeat([]byte("x"), 300000))
	if err := b.finish(); err != nil {
		t.Fatal(err)
	}
	if got := b.read(); got != "kept" {
		t.Fatalf("got %q", got)
	}
}

func TestFinishedPumpEndsThoughThePipeIsHeld(t *testing.T) {
	b := newBench(t)
	p := b.start(1<<30, 0)
	b.write([]byte("all"))
	p.Finish()
	if err := <-b.done; err != nil {
		t.Fatal(err)
	}
	if got := b.read(); got != "all" {
		t.Fatalf("got %q", got)
	}
	b.w.Close()
}

// TestFastWriterIsPumpedAsAnyOther holds what changes with a fast writer: how its pipe is watched.
func TestFastWriterIsPumpedAsAnyOther(t *testing.T) {
	b := newBench(t)
	p := b.start(1<<30, 0)
	want := bytes.Repeat([]byte("0123456789abcdef"), 200000)
	b.write(want)
	wait(t, func() bool { return !p.Pending() })
	for range 50 {
		b.write([]byte("line\n"))
		want = append(want, "line\n"...)
		wait(t, func() bool { return !p.Pending() })
	}
	b.write([]byte("last"))
	p.Finish()
	if err := <-b.done; err != nil {
		t.Fatal(err)
	}
	if p.Pending() {
		t.Error("bytes are pending in a pipe that is closed")
	}
	if got := b.read(); got != string(want)+"last" {
		t.Fatalf("%d bytes of %d, or others", len(got), len(want)+4)
	}
	b.w.Close()
}

// blocks are how many bytes the file takes on the disk, once the kernel has found a place for all of them.
func (b *bench) blocks() int64 {
	b.t.Helper()
	f, err := os.Open(b.spool.File(b.id, "out"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := errors.Join(f.Sync(), unix.Fstat(int(f.Fd()), &st)); err != nil {
		b.t.Fatal(err)
	}
	return st.Blocks * 512
}

// fast writes until the pump has set blocks aside, as a fast writer that had so much to say that room was looked for.
func (b *bench) fast(p *pump.Pump) (written []byte) {
	b.t.Helper()
	piece := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	wait(b.t, func() bool {
		b.write(piece)
		written = append(written, piece...)
		wait(b.t, func() bool { return !p.Pending() })
		return b.blocks() >= int64(len(written))+4<<20
	})
	return written
}

func TestBlocksThatWereSetAsideAreGivenBackAtTheEnd(t *testing.T) {
	b := newBench(t)
	p := b.start(1<<30, 0)
	want := b.fast(p)
	if err := b.finish(); err != nil {
		t.Fatal(err)
	}
	if b.read() != string(want) || b.stored != int64(len(want)) {
		t.Fatalf("got %d bytes of %d, or others; %d are counted", b.end, len(want), b.stored)
	}
	if took := b.blocks(); took > int64(len(want))+64<<10 {
		t.Errorf("%d bytes take %d on the disk", len(want), took)
	}
	if b.hurried == 0 {
		t.Error("nobody heard that the writer is fast")
	}
}

// A server that was killed left them; the pump of the next one finds the file.
func TestBlocksThatADeadPumpSetAsideAreGivenBack(t *testing.T) {
	b := newBench(t)
	f, err := os.Create(b.spool.File(b.id, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("before "); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 5<<20); err != nil {
		t.Fatal(err)
	}
	b.start(1<<30, 0)
	if err := b.finish(); err != nil {
		t.Fatal(err)
	}
	b.end = uint64(len("before "))
	if got, took := b.read(), b.blocks(); got != "before " || took > 64<<10 {
		t.Fatalf("got %q, %d bytes on the disk", got, took)
	}
}

// What was set aside must not become the body of a gap: there is a gap because the disk has no room.
func TestGapTakesNoneOfTheBlocksThatWereSetAside(t *testing.T) {
	b := newBench(t)
	p := b.start(1<<30, 0)
	want := b.fast(p)
	b.mu.Lock()
	b.reason = wirev1.GapReason_GAP_REASON_DISK_FULL
	b.mu.Unlock()
	piece := bytes.Repeat([]byte("x"), 1<<20)
	// Room is looked for only now and then.
	wait(t, func() bool {
		b.write(piece)
		wait(t, func() bool { return !p.Pending() })
		return b.book.Gaping() != wirev1.GapReason_GAP_REASON_UNSPECIFIED
	})
	_, stored := b.book.At(0, math.MaxUint64)
	if took := b.blocks(); took > int64(stored)+64<<10 {
		t.Errorf("%d stored bytes take %d on the disk", stored, took)
	}
	if err := b.finish(); err != nil {
		t.Fatal(err)
	}
	if got := b.read(); !bytes.HasPrefix([]byte(got), want) {
		t.Error("other bytes than were written")
	}
}

func TestConduitMovesMoreThanItsPipeHolds(t *testing.T) {
	var from, to [2]int
	if err := unix.Pipe2(from[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	if err := unix.Pipe2(to[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	files := make([]*os.File, 4)
	for i, fd := range []int{from[0], from[1], to[0], to[1]} {
		files[i] = os.NewFile(uintptr(fd), "pipe")
	}
	c := pump.NewConduit(files[0], files[3])
	done := make(chan error, 1)
	go func() { done <- c.Run() }()
	want := bytes.Repeat([]byte("0123456789abcdef"), 100000)
	go func() {
		_, _ = files[1].Write(want)
		files[1].Close()
	}()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(files[2], got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%v, or other bytes", err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		f.Close()
	}
}

func wait(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal("waited 30 seconds")
		}
		<-tick.C
	}
}
