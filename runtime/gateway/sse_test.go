package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
)

// journal is a session in memory: entries 1 to n, a live delta before each.
type recording struct {
	mu     sync.Mutex
	n      int64
	closed bool
	size   int
	opened []Cursor
	feeds  int
}

func (j *recording) open(_ context.Context, caller Caller, session string, after Cursor, _ bool) (Feed, error) {
	if caller.Tenant != "acme" || session != "s1" {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("no such session"))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.opened = append(j.opened, after)
	j.feeds++
	return &recorded{recording: j, at: after}, nil
}

type recorded struct {
	*recording
	at Cursor
}

func (f *recorded) Next(ctx context.Context) ([]*runtimev1.StreamEventsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at.Seq >= f.n {
		if f.closed {
			return nil, io.EOF
		}
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return nil, context.Cause(ctx)
	}
	f.at = f.at.Advance(f.at.Seq + 1)
	return []*runtimev1.StreamEventsResponse{
		{Event: &runtimev1.StreamEventsResponse_Delta{Delta: &runtimev1.Delta{Text: "a\nid: 99\r\n\ndata: {}\n\n"}}},
		{Cursor: f.at.String(), Event: &runtimev1.StreamEventsResponse_Entry{Entry: &runtimev1.Entry{
			Seq: f.at.Seq, SubmissionId: strings.Repeat("x", f.size),
		}}},
	}, nil
}

func (f *recorded) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.feeds--
}

func routes(b *bench, j *recording, options SSEOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /v1/sessions/{session}/events", b.door.Events(j.open, options))
	return b.door.Wrap(mux)
}

func follow(t *testing.T, s *httptest.Server, key, path, lastID string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// read reads events as a browser does, until most have an id or the stream ends. It gives the seqs, and the last id.
func read(t *testing.T, r io.Reader, most int) (seqs []int64, last string, ended bool) {
	t.Helper()
	lines := bufio.NewReader(r)
	id, data, event := "", "", ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return seqs, last, ended
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "id":
			if id = value; id == "" {
				t.Error("an empty id: a browser would forget where it was")
			}
		case name == "event":
			event = value
		case name == "data":
			data += value
		case line == "" && event == "end":
			return seqs, last, true
		case line == "" && data != "":
			var e runtimev1.StreamEventsResponse
			if err := protojson.Unmarshal([]byte(data), &e); err != nil {
				t.Fatalf("%q: %v", data, err)
			}
			if (id == "") != (e.GetDelta() != nil) || id != e.GetCursor() {
				t.Errorf("id %q of %v", id, &e)
			}
			if id != "" {
				seqs, last = append(seqs, e.GetEntry().GetSeq()), id
			}
			id, data = "", ""
			if len(seqs) == most {
				return seqs, last, false
			}
		}
	}
}

// anomalyco/opencode#25657, OpenHands/OpenHands#17619: cut anywhere, a client that comes back gets what it missed, once.
func TestResumeMissesNothingAndRepeatsNothing(t *testing.T) {
	b := setup(t, DoorOptions{})
	j := &recording{n: 40, closed: true}
	s := serve(t, routes(b, j, SSEOptions{}))
	var all []int64
	last := ""
	for cut := 1; ; cut = cut%7 + 1 {
		resp := follow(t, s, b.acme, "/v1/sessions/s1/events?cursor=3", last)
		if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Fatalf("content type %q", got)
		}
		seqs, id, ended := read(t, resp.Body, cut)
		resp.Body.Close()
		all = append(all, seqs...)
		if id != "" {
			last = id
		}
		if ended {
			break
		}
	}
	want := []int64{}
	for seq := int64(4); seq <= 40; seq++ {
		want = append(want, seq)
	}
	if fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("%v", all)
	}
	if j.opened[0].Seq != 3 || j.opened[1].Seq != 4 {
		t.Errorf("opened at %v", j.opened)
	}
}

func TestStreamsAreRefusedBeforeTheyBegin(t *testing.T) {
	b := setup(t, DoorOptions{Rates: Rates{Streams: 2}})
	s := serve(t, routes(b, &recording{n: 1}, SSEOptions{}))
	for path, want := range map[string]int{
		"/v1/sessions/s1/events?cursor=x": http.StatusBadRequest,
		"/v1/sessions/other/events":       http.StatusNotFound,
	} {
		resp := follow(t, s, b.acme, path, "")
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	resp := follow(t, s, b.zed, "/v1/sessions/s1/events", "")
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("another tenant's session: %d", resp.StatusCode)
	}
	var open []*http.Response
	for range 2 {
		open = append(open, follow(t, s, b.acme, "/v1/sessions/s1/events", ""))
	}
	if resp := follow(t, s, b.acme, "/v1/sessions/s1/events", ""); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a stream over the limit: %d", resp.StatusCode)
	}
	for _, r := range open {
		r.Body.Close()
	}
	until(t, func() bool {
		resp := follow(t, s, b.acme, "/v1/sessions/s1/events", "")
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// until polls a condition that another goroutine makes true.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(20 * time.Second); ; {
		if holds() {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it did not come")
		}
	}
}

// A client that does not read holds nothing: it is cut, over both versions of HTTP, and its feed is closed.
func TestSlowClientIsCut(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			b := setup(t, DoorOptions{})
			j := &recording{n: 1 << 30, size: 1 << 20}
			s := httptest.NewUnstartedServer(routes(b, j, SSEOptions{Slow: 100 * time.Millisecond}))
			s.EnableHTTP2 = version == "HTTP/2.0"
			s.StartTLS()
			defer s.Close()
			defer s.CloseClientConnections()
			resp := follow(t, s, b.acme, "/v1/sessions/s1/events", "")
			defer resp.Body.Close()
			if resp.Proto != version {
				t.Fatalf("spoken %s", resp.Proto)
			}
			until(t, func() bool {
				j.mu.Lock()
				defer j.mu.Unlock()
				return j.feeds == 0
			})
		})
	}
}

// pipe is a client in the bubble: it takes what comes, and its clock is the bubble's.
type pipe struct {
	http.ResponseWriter
	mu       sync.Mutex
	got      bytes.Buffer
	deadline time.Time
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deadline.IsZero() || time.Now().After(p.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return p.got.Write(b)
}

func (p *pipe) SetWriteDeadline(at time.Time) error {
	p.deadline = at
	return nil
}

func (p *pipe) Flush() {}

func TestQuietStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &recording{n: 1}
		p := &pipe{ResponseWriter: httptest.NewRecorder()}
		s := &stream{w: p, control: http.NewResponseController(p), options: SSEOptions{Heartbeat: 15 * time.Second, Slow: time.Second}}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- s.run(ctx, &recorded{recording: j}) }()
		time.Sleep(61 * time.Second)
		synctest.Wait()
		p.mu.Lock()
		if n := strings.Count(p.got.String(), ":\n\n"); n != 4 {
			t.Errorf("%d heartbeats in a minute: %s", n, &p.got)
		}
		if !p.deadline.IsZero() {
			t.Error("a deadline stands while nothing is written")
		}
		p.mu.Unlock()
		stopping := errors.New("the server stops")
		cancel(stopping)
		if err := <-ended; !errors.Is(err, stopping) {
			t.Errorf("%v", err)
		}
	})
}
