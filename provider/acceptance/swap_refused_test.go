package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Fly reverts a failed pull in silence: the machine runs, on its old image. That is an error, and the next plan shows
// the swap again. flyctl PR#4878, flyctl PR#4921.
func TestSilentlyRevertedPullIsAnError(t *testing.T) {
	p, w := startTenants(t, 1, "")
	v2 := p.image(t, "v2")
	before := p.machine(t, "acc-0")
	p.failPull(t, v2)
	w.setImage(v2)
	result := w.run("apply", "-auto-approve", "-input=false", "-no-color")
	if result.Err == nil {
		t.Fatalf("the apply of an image that cannot be pulled succeeded:\n%s", result.Output)
	}
	after := p.machine(t, "acc-0")
	if after.State != "started" || after.ImageRef.Digest != before.ImageRef.Digest {
		t.Fatalf("the platform did not revert (%s, %s): the test proves nothing", after.State, after.ImageRef.Digest)
	}
	mentions(t, result.Output, "acc-0", before.ID, "went back")
	wantOnlyImage(t, w.plan(), 1)
}

// A lease of somebody else's is an error that names holder and expiry; nothing is written.
func TestForeignLeaseStopsTheSwap(t *testing.T) {
	p, w := startTenants(t, 1, "")
	w.setImage(p.image(t, "v2"))
	id := p.machine(t, "acc-0").ID
	var lease struct {
		Data struct {
			Owner     string `json:"owner"`
			ExpiresAt int64  `json:"expires_at"`
		} `json:"data"`
	}
	if err := json.Unmarshal(p.must(t, http.MethodPost, "/v1/apps/acc-0/machines/"+id+"/lease?ttl=120", nil), &lease); err != nil {
		t.Fatal(err)
	}
	p.recorder.reset()
	result := w.run("apply", "-auto-approve", "-input=false", "-no-color")
	if result.Err == nil {
		t.Fatalf("the apply went through a foreign lease:\n%s", result.Output)
	}
	mentions(t, result.Output, id, lease.Data.Owner, time.Unix(lease.Data.ExpiresAt, 0).UTC().Format("15:04:05"))
	for _, e := range p.recorder.find(http.MethodPost, "/machines/"+id) {
		if strings.HasSuffix(e.Path, id) {
			t.Errorf("the machine was written under a foreign lease: %s", e.Path)
		}
	}
}

// A running command delays the swap: the update is sent only after its end, and it loses nothing.
func TestRunningCommandDelaysTheSwap(t *testing.T) {
	p, w := startTenants(t, 1, `drain_timeout = "60s"`)
	w.setImage(p.image(t, "v2"))
	id := p.machine(t, "acc-0").ID
	running := startCommand(t, p.wire(t, "acc-0"), "echo begin; sleep 3; echo end")

	exited := make(chan struct{})
	early := make(chan string, 8)
	p.recorder.onRequest(func(r *http.Request) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/machines/"+id) {
			return
		}
		select {
		case <-exited:
		default:
			early <- r.URL.Path
		}
	})
	go func() { <-running.done; close(exited) }()
	w.apply()
	p.recorder.onRequest(nil)
	select {
	case path := <-early:
		t.Errorf("the update %s was sent while the command ran", path)
	default:
	}
	result, err := running.wait()
	if err != nil || result.Exit.GetCode() != 0 || running.output() != "begin\nend\n" {
		t.Errorf("the command ended with %v, %v, output %q", result.Exit, err, running.output())
	}
}

// With busy = "interrupt" the command is ended by the swap and reported so, its output complete to the last byte: what
// it said when the signal reached it is there.
func TestInterruptedCommandKeepsItsLastByte(t *testing.T) {
	p, w := startTenants(t, 1, `busy = "interrupt"`)
	w.setImage(p.image(t, "v2"))
	running := startCommand(t, p.wire(t, "acc-0"), `trap 'echo last words; exit 7' TERM; while :; do echo tick; sleep 0.05; done`)
	w.apply()
	result, err := running.wait()
	if err != nil {
		t.Fatal(err)
	}
	if result.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_MACHINE_STOPPING {
		t.Errorf("the command ended by %v, want machine stopping: %v", result.Exit.GetCause(), result.Exit)
	}
	output := running.output()
	if !strings.HasSuffix(output, "tick\nlast words\n") || uint64(len(output)) != result.Exit.GetStdoutEnd() {
		t.Errorf("%d bytes of %d arrived, ending in %q", len(output), result.Exit.GetStdoutEnd(), tail(output, 40))
	}
}

// Between the question whether commands run and the update, no command can start: it is refused as retryable.
func TestCommandBetweenQuestionAndUpdateIsRefused(t *testing.T) {
	p, w := startTenants(t, 1, "")
	w.setImage(p.image(t, "v2"))
	id := p.machine(t, "acc-0").ID
	wireClient := p.wire(t, "acc-0")
	var once sync.Once
	refused := make(chan error, 1)
	p.recorder.onRequest(func(r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/machines/"+id) {
			once.Do(func() {
				_, err := wireClient.Run(context.Background(), client.Command{Spec: shell("echo never")}, client.Writers(&bytes.Buffer{}, &bytes.Buffer{}))
				refused <- err
			})
		}
	})
	w.apply()
	p.recorder.onRequest(nil)
	select {
	case err := <-refused:
		var refusal *wire.Error
		if !errors.As(err, &refusal) || !refusal.Retryable {
			t.Errorf("the command asked for at the update got %v, want a retryable refusal", err)
		}
	default:
		t.Error("no update was seen")
	}
	// The same client may come back once the machine has.
	var out bytes.Buffer
	result, err := wireClient.Run(t.Context(), client.Command{Spec: shell("echo back"), Follow: client.Follow{Wait: 30 * time.Second}}, client.Writers(&out, &out))
	if err != nil || result.Exit.GetCode() != 0 || out.String() != "back\n" {
		t.Errorf("after the swap: %v, %v, %q", result.Exit, err, out.String())
	}
}

// Where a key and a road to the machines are configured, the new version must also say Hello over the wire: one that
// answers its probe and refuses the key has failed the swap.
func TestSwapIsJudgedOverTheWireWhereThatIsConfigured(t *testing.T) {
	p, w := startTenants(t, 1, "")
	w.env = append(w.env, "FLYFLEET_TRANSPORT=socks5://"+p.local.SocksAddr()+"?network=runtime", "FLYFLEET_SIGNING_KEY="+p.key.String())
	w.setImage(p.image(t, "v2"))
	w.apply()

	stranger, err := token.NewRoot("acceptance")
	if err != nil {
		t.Fatal(err)
	}
	key, err := stranger.Delegate("rt-stranger", []string{"*"}, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w.env = append(w.env, "FLYFLEET_SIGNING_KEY="+key.String())
	w.setImage(p.image(t, "v3"))
	result := w.run("apply", "-auto-approve", "-input=false", "-no-color")
	if result.Err == nil {
		t.Fatalf("a machine that refuses the key passed the gate:\n%s", result.Output)
	}
	mentions(t, result.Output, "Hello", p.machine(t, "acc-0").ID)
	if strings.Contains(result.Output, key.String()) {
		t.Error("the error shows the key")
	}
}

func shell(script string) *wirev1.ExecSpec {
	return &wirev1.ExecSpec{Argv: [][]byte{[]byte("/bin/sh"), []byte("-c"), []byte(script)}}
}

// command is one exec followed in the background.
type command struct {
	id      string
	pid     int64 // once started
	started chan struct{}
	done    chan struct{}
	result  client.Result
	err     error

	mu  sync.Mutex
	out bytes.Buffer
}

// startCommand runs a script and returns once the machine has started it.
func startCommand(t *testing.T, c *client.Client, script string) *command {
	t.Helper()
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	run := &command{id: id, started: make(chan struct{}), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(run.done)
		run.result, run.err = c.Run(ctx, client.Command{ID: id, Spec: shell(script), Follow: client.Follow{Patience: time.Minute}}, run)
	}()
	select {
	case <-run.started:
	case <-run.done:
		cancel()
		t.Fatalf("the command did not start: %v", run.err)
	case <-time.After(30 * time.Second):
		cancel()
		t.Fatal("the command did not start in 30 s")
	}
	t.Cleanup(func() { cancel(); <-run.done })
	return run
}

func (c *command) Started(s *wirev1.Started) error {
	if !s.GetAlreadyStarted() {
		c.pid = s.GetPid()
		close(c.started)
	}
	return nil
}

func (c *command) Output(stream wirev1.Stream, _ uint64, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stream == wirev1.Stream_STREAM_STDOUT {
		c.out.Write(data)
	}
	return nil
}

func (c *command) Gap(gap *wirev1.Gap) error {
	return fmt.Errorf("bytes %d to %d are missing", gap.From, gap.To)
}

func (c *command) wait() (client.Result, error) { <-c.done; return c.result, c.err }

func (c *command) output() string { c.mu.Lock(); defer c.mu.Unlock(); return c.out.String() }

// mentions fails for each word that the output lacks; Terraform breaks long lines, so spaces are folded.
func mentions(t *testing.T, output string, words ...string) {
	t.Helper()
	folded := strings.Join(strings.Fields(strings.ReplaceAll(output, "│", " ")), " ")
	for _, word := range words {
		if !strings.Contains(folded, word) {
			t.Errorf("the error does not say %q:\n%s", word, output)
		}
	}
}
