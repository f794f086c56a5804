//go:build linux

package controlserver_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func newID(t *testing.T) string {
	t.Helper()
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// eventually waits for a condition; a minute is for machines under load.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// begun is a command that runs in the background of a test.
type begun struct {
	id     string
	cancel context.CancelFunc
	done   chan struct{}
	got    ran
	err    error
	out    bytes.Buffer
	errs   bytes.Buffer
}

// begin starts a command and returns once it runs.
func begin(t *testing.T, c *client.Client, spec *wirev1.ExecSpec) *begun {
	t.Helper()
	b := &begun{}
	return b.begin(t, c, spec, client.Writers(&b.out, &b.errs))
}

func beginSink(t *testing.T, c *client.Client, spec *wirev1.ExecSpec, sink client.Sink) *begun {
	t.Helper()
	return new(begun).begin(t, c, spec, sink)
}

func (b *begun) begin(t *testing.T, c *client.Client, spec *wirev1.ExecSpec, sink client.Sink) *begun {
	t.Helper()
	b.id, b.done = newID(t), make(chan struct{})
	var ctx context.Context
	ctx, b.cancel = context.WithCancel(limited(t))
	started := make(chan struct{})
	go func() {
		defer close(b.done)
		b.got.Result, b.err = c.Run(ctx, client.Command{ID: b.id, Spec: spec}, &startedSink{Sink: sink, seen: func() { close(started) }})
		b.got.stdout, b.got.stderr = b.out.String(), b.errs.String()
	}()
	t.Cleanup(func() { b.cancel(); <-b.done })
	select {
	case <-started:
	case <-b.done:
		t.Fatalf("the command ended before it started: %v", b.err)
	}
	return b
}

func (b *begun) wait(t *testing.T) ran {
	t.Helper()
	<-b.done
	if b.err != nil {
		t.Fatalf("run: %v", b.err)
	}
	return b.got
}

// startedSink calls seen when the exec has a process.
type startedSink struct {
	client.Sink
	seen func()
}

func (s *startedSink) Started(started *wirev1.Started) error {
	s.seen()
	return s.Sink.Started(started)
}

// blockingSink takes one chunk and then nothing until hold is closed.
type blockingSink struct {
	hold    chan struct{}
	reached chan struct{}
	once    sync.Once
}

func (s *blockingSink) Started(*wirev1.Started) error { return nil }
func (s *blockingSink) Gap(*wirev1.Gap) error         { return nil }
func (s *blockingSink) Output(wirev1.Stream, uint64, []byte) error {
	s.once.Do(func() { close(s.reached) })
	<-s.hold
	return nil
}

// chunkSink keeps chunks apart.
type chunkSink struct {
	chunks  [][]byte
	arrived chan string
}

func (s *chunkSink) Started(*wirev1.Started) error { return nil }
func (s *chunkSink) Gap(*wirev1.Gap) error         { return nil }
func (s *chunkSink) Output(_ wirev1.Stream, _ uint64, data []byte) error {
	s.chunks = append(s.chunks, bytes.Clone(data))
	if s.arrived != nil {
		s.arrived <- string(data)
	}
	return nil
}

type countingWriter struct{ n int }

func (w *countingWriter) Write(p []byte) (int, error) { w.n += len(p); return len(p), nil }

type countingDialer struct{ count atomic.Int32 }

func (d *countingDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.count.Add(1)
	return new(net.Dialer).DialContext(ctx, network, address)
}

// cuttingDialer opens connections that it can cut in the middle.
type cuttingDialer struct {
	mu   sync.Mutex
	conn *cuttable
	cuts atomic.Int32
}

type cuttable struct {
	net.Conn
	read atomic.Int64
}

func (c *cuttable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (d *cuttingDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn = &cuttable{Conn: conn}
	return d.conn, nil
}

// cutEvery closes the present connection whenever it has carried so many bytes.
func (d *cuttingDialer) cutEvery(stop <-chan struct{}, bytes int64) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		d.mu.Lock()
		if d.conn != nil && d.conn.read.Load() > bytes {
			d.conn.Close()
			d.conn = nil
			d.cuts.Add(1)
		}
		d.mu.Unlock()
	}
}

// listed is what List tells of one exec, nil when it is not there.
func listed(t *testing.T, c *client.Client, id string) *wirev1.ExecInfo {
	t.Helper()
	answer, err := c.RPC().List(limited(t), connect.NewRequest(&wirev1.ListRequest{Scope: machinetest.Scope, PageSize: 1000}))
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range answer.Msg.GetExecs() {
		if info.GetExecId() == id {
			return info
		}
	}
	return nil
}

// waitForFile waits for a file with a number in it.
func waitForFile(t *testing.T, path string) int {
	t.Helper()
	var n int
	eventually(t, path, func() bool {
		b, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		n, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	return n
}

// groupOf are the living processes of a process group.
func groupOf(t *testing.T, group int) []int {
	t.Helper()
	var pids []int
	for pid, fields := range processTable(t) {
		if fields[0] != "Z" && fields[2] == strconv.Itoa(group) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processTable maps pids to the fields of /proc/<pid>/stat from the state on: state, parent, group.
func processTable(t *testing.T) map[int][]string {
	t.Helper()
	table := map[int][]string{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if i := bytes.LastIndexByte(b, ')'); i > 0 {
			table[pid] = strings.Fields(string(b[i+1:]))
		}
	}
	return table
}

// alive says whether a process runs; a zombie does not.
func alive(t *testing.T, pid int) bool {
	t.Helper()
	fields := processTable(t)[pid]
	return fields != nil && fields[0] != "Z"
}
