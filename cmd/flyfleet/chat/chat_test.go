package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/daemon"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
)

// world is a runtime behind a wire that can be cut.
type world struct {
	*testing.T
	key   string
	proxy *proxy
}

const agents = `{"agents": {
  "default": {},
  "careful": {"rules": [{"tool": "exec", "policy": "ask"}]}
}}`

func start(t *testing.T) *world {
	t.Helper()
	url := pgtest.Migrated(t)
	s, err := store.Open(t.Context(), store.Options{URL: url, Conns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	key, _, err := gateway.AddKey(t.Context(), s, "acme", 0)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "agents.json")
	if err := os.WriteFile(file, []byte(agents), 0o600); err != nil {
		t.Fatal(err)
	}
	address := free(t)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() {
		over <- daemon.Run(ctx, daemon.Config{
			Listen: address, Sessions: 10, DrainTime: time.Second, TTL: 3 * time.Second, Agents: file, Provider: "scripted", Workspaces: t.TempDir(),
			TenantRate: 1000, TenantBurst: 1000,
		}, daemon.Secrets{DatabaseURL: url}, slog.New(slog.DiscardHandler))
	}()
	p := listen(t, address)
	t.Cleanup(func() {
		p.stop()
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return &world{T: t, key: key, proxy: p}
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// proxy passes bytes on, and cuts all connections when told.
type proxy struct {
	net.Listener
	to   string
	busy sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]bool
}

func listen(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to, open: map[net.Conn]bool{}}
	p.busy.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.busy.Go(func() { p.pass(c) })
		}
	})
	return p
}

func (p *proxy) pass(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer up.Close()
	p.mu.Lock()
	p.open[c] = true
	p.mu.Unlock()
	p.busy.Go(func() {
		_, _ = io.Copy(up, c)
		up.Close()
	})
	_, _ = io.Copy(c, up)
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
}

func (p *proxy) stop() {
	_ = p.Close()
	p.cut()
	p.busy.Wait()
}

// shown is what a chat writes; seen is called with all of it after each write.
type shown struct {
	mu   sync.Mutex
	text bytes.Buffer
	seen func(string)
}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	if s.seen != nil {
		s.seen(s.text.String())
	}
	return len(p), nil
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// talk runs a chat over stdin as it would be without a terminal.
func (w *world) talk(m *Command, in io.Reader, json bool, seen func(string)) (out, notes string, err error) {
	ctx, cancel := context.WithTimeoutCause(w.Context(), time.Minute, errors.New("the chat does not end"))
	defer cancel()
	o, n := &shown{seen: seen}, &shown{}
	env := map[string]string{URL: "http://" + w.proxy.Addr().String(), Key: w.key}
	m.As = "ann"
	err = m.Run(ctx, &console.Console{In: in, Out: o, Err: n, JSON: json}, &settings.Settings{Get: func(name string) string { return env[name] }})
	return o.String(), n.String(), err
}

func TestLinesAreAnsweredInOrder(t *testing.T) {
	w := start(t)
	out, notes, err := w.talk(&Command{Session: "new", Agent: "default"}, strings.NewReader("run: printf 'a\\033[31mb\\n'\nsay: bye\n"), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"> run:", "[exec ", "a\uFFFD[31mb\n", "> say: bye\nbye\n"} {
		before, after, found := strings.Cut(out, part)
		if !found {
			t.Fatalf("%q is not in its place in\n%s", part, out)
		}
		_, out = before, after
	}
	if !strings.Contains(notes, "flyfleet: session ") || !strings.Contains(notes, " --after ") {
		t.Errorf("notes %q", notes)
	}
}

// Cut in the middle of a command's output, the chat goes on, each line once.
func TestChatGoesOnAfterACut(t *testing.T) {
	w := start(t)
	gate := filepath.Join(t.TempDir(), "gate")
	cut := sync.OnceFunc(func() {
		w.proxy.cut()
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	script := "run: seq 1 1000; while [ ! -e " + gate + " ]; do sleep 0.02; done; seq 1001 5000\n"
	out, _, err := w.talk(&Command{Session: "new", Agent: "default"}, strings.NewReader(script), false, func(text string) {
		if strings.Contains(text, "\n1000\n") {
			cut()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := 1; i <= 5000; i++ {
		fmt.Fprintln(&want, i)
	}
	if !strings.Contains(out, want.String()) || strings.Count(out, "\n1000\n") != 1 || strings.Count(out, "> run:") != 1 {
		t.Errorf("lines are missing or twice: %d bytes", len(out))
	}
}

func TestCardsAreShownAndDecided(t *testing.T) {
	w := start(t)
	out, _, err := w.talk(&Command{Session: "new", Agent: "careful"}, strings.NewReader("run: echo done\ny\nrun: echo never\nn not today\n"), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"[card ", "echo done", "Allow it?", "[approved by ann]", "done\n", "[card ", "echo never", "[denied by ann] not today"} {
		_, rest, found := strings.Cut(out, part)
		if !found {
			t.Fatalf("%q is not in its place in\n%s", part, out)
		}
		out = rest
	}
}

// A program that leaves a card open is told by the exit code, and another chat decides it.
func TestCardThatIsLeftOpen(t *testing.T) {
	w := start(t)
	out, notes, err := w.talk(&Command{Session: "new", Agent: "careful"}, strings.NewReader("run: echo later\n"), true, nil)
	var exit *console.Exit
	if !errors.As(err, &exit) || exit.Code != ExitCard {
		t.Fatalf("%v", err)
	}
	cursor := ""
	for line := range strings.Lines(out) {
		e := new(runtimev1.StreamEventsResponse)
		if err := protojson.Unmarshal([]byte(line), e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e.GetCursor() != "" {
			cursor = e.GetCursor()
		}
	}
	_, rest, _ := strings.Cut(notes, "session ")
	session, _, _ := strings.Cut(rest, "\n")
	if !strings.Contains(notes, " --after "+cursor+" ") {
		t.Errorf("the cursor is %q, the notes are %q", cursor, notes)
	}
	out, _, err = w.talk(&Command{Session: session, After: cursor}, strings.NewReader("y\n"), false, nil)
	if err != nil || strings.Contains(out, "> run:") || !strings.Contains(out, "[approved by ann]\nlater\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := w.talk(&Command{Session: session + "x"}, strings.NewReader(""), false, nil); err == nil {
		t.Error("a session that is none")
	}
}

func TestKeyThatIsNone(t *testing.T) {
	w := start(t)
	w.key = "ffkey1.nothing"
	_, _, err := w.talk(&Command{Session: "new", Agent: "default"}, strings.NewReader(""), false, nil)
	if err == nil || !strings.Contains(err.Error(), "keys add") || strings.Contains(err.Error(), w.key) {
		t.Errorf("%v", err)
	}
}

func TestCharactersAreShownWhole(t *testing.T) {
	for text, want := range map[string]int{"": 0, "a": 0, "é": 0, "a\xc3": 1, "\xe2\x82": 2, "\xf0\x9f\x98": 3, "\xff": 0, "\x80\x80\x80\x80": 0} {
		if got := unfinished([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
