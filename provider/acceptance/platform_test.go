package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/ociimage"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
)

// platform is a flylocal of the test's own, behind a recorder, with a key that its machines trust.
type platform struct {
	local    *flylocal.Platform
	recorder *recorder
	root     token.Root
	key      token.SigningKey
	dial     transport.DialFunc
}

func startPlatform(t testing.TB) *platform { return startPlatformOn(t, "namespace") }

func startPlatformOn(t testing.TB, runner string) *platform {
	t.Helper()
	var log bytes.Buffer
	local, err := flylocal.Start(t.Context(), flylocal.Options{
		Dir: t.TempDir(), Runner: runner, HostTools: true,
		Log: slog.New(slog.NewJSONHandler(&lockedWriter{w: &log}, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := local.Close(ctx); err != nil {
			t.Errorf("stopping the platform: %v", err)
		}
		if err := flylocal.Remove(ctx, local.Dir, nil); err != nil { // files of other ids, which an ordinary user's rm leaves
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("platform's log:\n%s", tail(log.String(), 8000))
		}
	})
	root, err := token.NewRoot("acceptance")
	if err != nil {
		t.Fatal(err)
	}
	key, err := root.Delegate("rt-test", []string{"*"}, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dial, err := transport.Parse("socks5://" + local.SocksAddr() + "?network=runtime")
	if err != nil {
		t.Fatal(err)
	}
	return &platform{local: local, recorder: startRecorder(t, local.URL()), root: root, key: key, dial: dial}
}

// env points a client at the platform, its Machines API through the recorder.
func (p *platform) env() map[string]string {
	return map[string]string{
		"FLY_API_TOKEN": p.local.Token(), "FLY_ORG": p.local.Org(),
		"FLY_FLAPS_BASE_URL": p.recorder.URL, "FLY_API_BASE_URL": p.recorder.URL,
		"FLY_REGISTRY_HOST": strings.TrimPrefix(p.local.URL(), "http://"),
	}
}

// image builds and pushes a tenant image that differs from others by its version label only.
func (p *platform) image(t testing.TB, version string) string {
	t.Helper()
	spec := ociimage.Tenant(ociimage.FromFile(binary(t, "flyfleet-controlserver")))
	spec.Labels[ociimage.LabelVersion] = version
	img, err := ociimage.Build(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	to := ociimage.Destination{Registry: strings.TrimPrefix(p.local.URL(), "http://"), Repository: "tenants", Token: p.local.Token()}
	if err := ociimage.Push(t.Context(), img, to); err != nil {
		t.Fatal(err)
	}
	return img.Ref(to.Ref())
}

// call speaks to the Machines API as another tool would, past the recorder.
func (p *platform) call(t testing.TB, method, path string, body any) (int, []byte) {
	t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		reader = bytes.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, p.local.URL()+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.local.Token())
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// must is call where anything but success is the test's own mistake.
func (p *platform) must(t testing.TB, method, path string, body any) []byte {
	t.Helper()
	status, answer := p.call(t, method, path, body)
	if status > 299 {
		t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// machineView is what the tests read of a machine.
type machineView struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	State      string          `json:"state"`
	InstanceID string          `json:"instance_id"`
	Cordoned   bool            `json:"cordoned"`
	Config     json.RawMessage `json:"config"`
	ImageRef   struct {
		Digest string `json:"digest"`
	} `json:"image_ref"`
	Events []struct {
		Type, Status string
	} `json:"events"`
	Checks []struct {
		Name, Status string
	} `json:"checks"`
}

func (p *platform) machines(t testing.TB, app string) []machineView {
	t.Helper()
	var list []machineView
	if err := json.Unmarshal(p.must(t, http.MethodGet, "/v1/apps/"+app+"/machines", nil), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// machine is the only machine of an app.
func (p *platform) machine(t testing.TB, app string) machineView {
	t.Helper()
	list := p.machines(t, app)
	if len(list) != 1 {
		t.Fatalf("app %s has %d machines, want one", app, len(list))
	}
	return list[0]
}

func (p *platform) waitState(t testing.TB, app, id, state string) {
	t.Helper()
	p.must(t, http.MethodGet, "/v1/apps/"+app+"/machines/"+id+"/wait?timeout=30&state="+state, nil)
}

// wire is a client of an app's machine, as the runtime has one.
func (p *platform) wire(t testing.TB, app string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{
		Address: app + ".flycast:8080", Dial: p.dial, Scope: "test",
		Tokens: client.SignWith(p.key, app, p.machine(t, app).ID, "test", "test"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// failPull makes every pull of an image fail from now on.
func (p *platform) failPull(t testing.TB, ref string) {
	t.Helper()
	_, digest, found := strings.Cut(ref, "@")
	if !found {
		t.Fatalf("image %s has no digest", ref)
	}
	p.local.Faults.FailPull(digest, "")
}

// host sets the status of the host that a machine stands on.
func (p *platform) host(t testing.TB, machine, status string) {
	t.Helper()
	if err := p.local.Faults.Host(machine, status); err != nil {
		t.Fatal(err)
	}
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// removePrograms removes what programs built, or left when it failed.
func removePrograms() error {
	dir, _ := programs()
	if dir == "" {
		return nil
	}
	return os.RemoveAll(filepath.Clean(dir))
}
