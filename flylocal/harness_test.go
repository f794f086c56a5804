package flylocal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/superfly/fly-go/flaps"
	"github.com/superfly/fly-go/tokens"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
)

// deadline bounds every wait of these tests; nothing is asserted about time below it.
const deadline = 20 * time.Second

// start runs a platform for the test. Its delays are short; tests that look at what is passing set their own.
func start(t *testing.T, change ...func(*flylocal.Options)) *flylocal.Platform {
	t.Helper()
	o := flylocal.Options{Dir: t.TempDir(), Runner: "none", SettleDelay: 2 * time.Millisecond, UnbindDelay: time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	p, err := flylocal.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// client is fly-go's own client of the Machines API.
func client(t *testing.T, p *flylocal.Platform) *flaps.Client {
	t.Helper()
	t.Setenv("FLY_FLAPS_BASE_URL", p.URL())
	c, err := flaps.NewWithOptions(t.Context(), flaps.NewClientOpts{Tokens: tokens.Parse(p.Token()), UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answer is what a raw call got.
type answer struct {
	status int
	body   []byte
	header http.Header
}

// call makes a raw call with the token; a body that is a string goes out as it is.
func call(t *testing.T, p *flylocal.Platform, method, path string, body any, headers ...string) answer {
	t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = bytes.NewReader([]byte(b))
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.URL()+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.Token())
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: resp.StatusCode, body: raw, header: resp.Header}
}

// must is call for a call that has to succeed.
func must(t *testing.T, p *flylocal.Platform, method, path string, body any, headers ...string) answer {
	t.Helper()
	got := call(t, p, method, path, body, headers...)
	if got.status > 299 {
		t.Fatalf("%s %s: %d %s", method, path, got.status, got.body)
	}
	return got
}

func (a answer) decode(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal(a.body, into); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// machine is what the tests look at in an answer.
type machine struct {
	ID         string
	Name       string
	State      string
	Region     string
	InstanceID string `json:"instance_id"`
	PrivateIP  string `json:"private_ip"`
	Nonce      string
	Cordoned   bool
	HostStatus string `json:"host_status"`
	Config     json.RawMessage
	Incomplete json.RawMessage `json:"incomplete_config"`
	AppName    string          `json:"app_name"`
	UpdatedAt  string          `json:"updated_at"`
	ImageRef   struct {
		Registry, Repository, Tag, Digest string
	} `json:"image_ref"`
	Checks []struct{ Name, Status, Output string }
	Events []event
}

type event struct {
	ID, Type, Status, Source string
	Request                  *struct {
		ExitEvent *struct {
			ExitCode      int  `json:"exit_code"`
			RequestedStop bool `json:"requested_stop"`
			Restarting    bool `json:"restarting"`
		} `json:"exit_event"`
	}
}

const image = "registry.fly.io/base:v1"

func newApp(t *testing.T, p *flylocal.Platform, name string) {
	t.Helper()
	must(t, p, "POST", "/v1/apps", map[string]string{"name": name, "org_slug": p.Org(), "network": name})
}

// newMachine makes a machine and waits until it is settled.
func newMachine(t *testing.T, p *flylocal.Platform, app, body string) machine {
	t.Helper()
	var m machine
	must(t, p, "POST", "/v1/apps/"+app+"/machines", body).decode(t, &m)
	return settled(t, p, app, m.ID)
}

func get(t *testing.T, p *flylocal.Platform, app, id string) machine {
	t.Helper()
	var m machine
	must(t, p, "GET", "/v1/apps/"+app+"/machines/"+id, nil).decode(t, &m)
	return m
}

func settled(t *testing.T, p *flylocal.Platform, app, id string) machine {
	t.Helper()
	must(t, p, "GET", "/v1/apps/"+app+"/machines/"+id+"/wait?state=settled&timeout=20", nil)
	return get(t, p, app, id)
}

func plain(name string) string {
	return `{"name":"` + name + `","config":{"image":"` + image + `"}}`
}

// eventually asks until the condition holds or the deadline is over.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never came true: %s", what)
		}
	}
}

func ptr[T any](v T) *T { return &v }
