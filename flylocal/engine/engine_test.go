package engine

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

func testImage(t *testing.T) v1.Image {
	t.Helper()
	image, err := mutate.Config(empty.Image, v1.Config{
		Entrypoint: []string{"/init", "serve"}, Cmd: []string{"--all"}, Env: []string{"FROM=image", "BOTH=image"}, User: "app", WorkingDir: "/srv",
	})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestChecksReachTheMachineAndTurnWithIt(t *testing.T) {
	var status atomic.Int32
	status.Store(http.StatusOK)
	var asked atomic.Pointer[http.Request]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r)
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte("says so"))
	}))
	defer server.Close()
	s := &stub{}
	w := open(t, t.TempDir(), s, testImage(t))
	m := create(t, w, `{"image":"x","checks":{"web":{"type":"http","port":8080,"path":"/healthz","interval":"5ms","timeout":"5s","headers":[{"name":"X-A","values":["1"]}]}},
		"services":[{"internal_port":9090,"checks":[{"type":"tcp","interval":"5ms","grace_period":"0s"}]}]}`)
	show := func() []string {
		view, err := w.Machine("app", m.ID)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, c := range view.Checks {
			if c.UpdatedAt.IsZero() {
				t.Errorf("%s has no updated_at", c.Name)
			}
			out = append(out, c.Name+" "+c.Status)
		}
		return out
	}
	eventually(t, "nothing listens: critical", func() bool {
		return slices.Equal(show(), []string{"web critical", "servicecheck-00-tcp-9090 critical"})
	})
	s.set(func() { s.listen = strings.TrimPrefix(server.URL, "http://") })
	eventually(t, "it listens: passing", func() bool {
		return slices.Equal(show(), []string{"web passing", "servicecheck-00-tcp-9090 passing"})
	})
	if r := asked.Load(); r.URL.Path != "/healthz" || r.Header.Get("X-A") != "1" {
		t.Errorf("asked %s %v", r.URL, r.Header)
	}
	status.Store(http.StatusServiceUnavailable)
	eventually(t, "it answers 503: critical, with the answer", func() bool {
		view, err := w.Machine("app", m.ID)
		return err == nil && view.Checks[0].Status == "critical" && strings.Contains(view.Checks[0].Output, "says so")
	})
	status.Store(http.StatusOK)
	eventually(t, "passing again", func() bool { return show()[0] == "web passing" })
	if err := w.StopMachine("app", m.ID, "", "", 0); err != nil {
		t.Fatal(err)
	}
	settle(t, w, m.ID)
	if got := show(); !slices.Equal(got, []string{"web critical", "servicecheck-00-tcp-9090 critical"}) {
		t.Errorf("a stopped machine's checks: %v", got)
	}
}

func TestAFailureInsideTheGracePeriodIsNoFailure(t *testing.T) {
	s := &stub{}
	w := open(t, t.TempDir(), s, testImage(t))
	m := create(t, w, `{"image":"x","checks":{"web":{"type":"tcp","port":8080,"interval":"2ms","grace_period":"1h"}}}`)
	eventually(t, "the check has run", func() bool {
		view, err := w.Machine("app", m.ID)
		return err == nil && view.Checks[0].Output == "connection refused"
	})
	if view, _ := w.Machine("app", m.ID); view.Checks[0].Status != "warning" {
		t.Errorf("inside the grace period: %+v", view.Checks[0])
	}
}

func TestAMachineGetsItsImagesProcessAndEnvironment(t *testing.T) {
	s := &stub{}
	w := open(t, t.TempDir(), s, testImage(t))
	if _, err := w.CreateApp(AppInput{Name: "app", Network: "own"}); err != nil {
		t.Fatal(err)
	}
	secret := "c2VjcmV0" // The base64 of "secret", as a file wants it.
	if _, _, err := w.SetSecrets("app", map[string]*string{"BOTH": &secret, "S": &secret}); err != nil {
		t.Fatal(err)
	}
	v, err := w.CreateVolume("app", VolumeInput{Name: "data"})
	if err != nil {
		t.Fatal(err)
	}
	m := create(t, w, `{"image":"x","env":{"BOTH":"config","FLY_REGION":"cheat"},"mounts":[{"volume":"`+v.ID+`","path":"/data"}],
		"init":{"cmd":["--one"]},"files":[{"guest_path":"/etc/a","raw_value":"aGk="},{"guest_path":"/etc/b","secret_name":"S","mode":384}]}`)
	_, spec := s.last()
	if !slices.Equal(spec.Argv, []string{"/init", "serve", "--one"}) || spec.User != "app" || spec.WorkDir != "/srv" || spec.Network != "own" || !spec.Fresh {
		t.Errorf("%+v", spec)
	}
	for _, want := range []string{"FROM=image", "BOTH=config", "S=" + secret, "FLY_REGION=ams", "FLY_APP_NAME=app", "FLY_MACHINE_ID=" + m.ID, "FLY_PRIVATE_IP=" + m.PrivateIP.String(), "FLY_VM_MEMORY_MB=256"} {
		if !slices.Contains(spec.Env, want) {
			t.Errorf("no %s in %v", want, spec.Env)
		}
	}
	if len(spec.Mounts) != 1 || spec.Mounts[0].Path != "/data" || spec.Mounts[0].VolumeDir != w.store.VolumeDir(v.ID) {
		t.Errorf("%+v", spec.Mounts)
	}
	if len(spec.Files) != 2 || string(spec.Files[0].Content) != "hi" || spec.Files[0].Mode != 0o644 || string(spec.Files[1].Content) != "secret" || spec.Files[1].Mode != 0o600 {
		t.Errorf("%+v", spec.Files)
	}
	staged := "bmV3"
	if _, _, err := w.SetSecrets("app", map[string]*string{"S": &staged}); err != nil {
		t.Fatal(err)
	}
	if err := w.RestartMachine("app", m.ID, "", RestartInput{}); err != nil {
		t.Fatal(err)
	}
	settle(t, w, m.ID)
	if _, spec := s.last(); !slices.Contains(spec.Env, "S="+secret) {
		t.Error("a restart took a staged secret")
	}
	if _, err := w.UpdateMachine("app", m.ID, "", MachineInput{Config: m.Config}); err != nil {
		t.Fatal(err)
	}
	settle(t, w, m.ID)
	if _, spec := s.last(); !slices.Contains(spec.Env, "S="+staged) {
		t.Error("an update took no staged secret")
	}
}

func TestMachinesStopAsTheirConfigSays(t *testing.T) {
	s := &stub{}
	w := open(t, t.TempDir(), s, testImage(t))
	plain := create(t, w, `{"image":"x"}`)
	own := create(t, w, `{"image":"x","stop_config":{"signal":"SIGTERM","timeout":"30s"}}`)
	for _, stop := range []struct{ id, signal, want string }{
		{plain.ID, "", "SIGINT 5s"}, {own.ID, "", "SIGTERM 30s"},
	} {
		if err := w.StopMachine("app", stop.id, "", stop.signal, 0); err != nil {
			t.Fatal(err)
		}
		settle(t, w, stop.id)
		if got := s.stops[len(s.stops)-1]; got != stop.want {
			t.Errorf("stopped by %s, want %s", got, stop.want)
		}
	}
	// The old version's own words stop it, not the new one's.
	if _, err := w.StartMachine("app", own.ID, ""); err != nil {
		t.Fatal(err)
	}
	settle(t, w, own.ID)
	if _, err := w.UpdateMachine("app", own.ID, "", MachineInput{Config: []byte(`{"image":"x","stop_config":{"signal":"SIGQUIT"}}`)}); err != nil {
		t.Fatal(err)
	}
	settle(t, w, own.ID)
	if got := s.stops[len(s.stops)-1]; got != "SIGTERM 30s" {
		t.Errorf("the update stopped it by %s", got)
	}
}

func TestAMachineThatCannotBootIsFailed(t *testing.T) {
	s := &stub{broken: true}
	w := open(t, t.TempDir(), s, testImage(t))
	if m := create(t, w, `{"image":"x"}`); m.State != state.Failed {
		t.Errorf("%s", m.State)
	}
	s.set(func() { s.broken = false })
	m := create(t, w, `{"image":"x"}`)
	s.set(func() { s.broken = true })
	if _, err := w.UpdateMachine("app", m.ID, "", MachineInput{Config: []byte(`{"image":"y"}`)}); err != nil {
		t.Fatal(err)
	}
	if now := settle(t, w, m.ID); now.State != state.Failed || now.InstanceID == m.InstanceID {
		t.Errorf("an update that cannot boot: %s", now.State)
	}
}

func TestAnUpdateThatSkipsTheLaunchBootsNothing(t *testing.T) {
	s := &stub{}
	w := open(t, t.TempDir(), s, testImage(t))
	m := create(t, w, `{"image":"x"}`)
	if _, err := w.UpdateMachine("app", m.ID, "", MachineInput{Config: []byte(`{"image":"y"}`), SkipLaunch: true}); err != nil {
		t.Fatal(err)
	}
	<-w.machines[m.ID].op.done
	if now := settle(t, w, m.ID); now.State != state.Stopped || len(s.specs) != 1 {
		t.Errorf("%s after %d boots", now.State, len(s.specs))
	}
}

func TestStartedMachinesBootAgainAfterAReopen(t *testing.T) {
	dir, s := t.TempDir(), &stub{}
	w := open(t, dir, s, testImage(t))
	up, down := create(t, w, `{"image":"x"}`), create(t, w, `{"image":"x"}`)
	if err := w.StopMachine("app", down.ID, "", "", 0); err != nil {
		t.Fatal(err)
	}
	settle(t, w, down.ID)
	if err := errors.Join(w.Close(t.Context()), w.store.Close()); err != nil {
		t.Fatal(err)
	}
	for _, i := range s.lives {
		if !i.ended {
			t.Error("a machine outlived its platform")
		}
	}
	boots := len(s.specs)
	w = open(t, dir, s, testImage(t))
	now := settle(t, w, up.ID)
	if now.State != state.Started || now.InstanceID != up.InstanceID || len(s.specs) != boots+1 || s.specs[boots].MachineID != up.ID {
		t.Errorf("%s, %d boots", now.State, len(s.specs)-boots)
	}
	if now := settle(t, w, down.ID); now.State != state.Stopped {
		t.Errorf("the stopped one is %s", now.State)
	}
}

func TestSuspendFreezesAndStartThaws(t *testing.T) {
	s := &stub{}
	w := open(t, t.TempDir(), s, testImage(t))
	m := create(t, w, `{"image":"x"}`)
	inst, _ := s.last()
	if err := w.SuspendMachine("app", m.ID, ""); err != nil {
		t.Fatal(err)
	}
	if settle(t, w, m.ID); !inst.frozen {
		t.Error("nothing was frozen")
	}
	if _, err := w.StartMachine("app", m.ID, ""); err != nil {
		t.Fatal(err)
	}
	settle(t, w, m.ID)
	if again, _ := s.last(); again != inst || inst.frozen || inst.ended {
		t.Error("a resume booted anew")
	}
	big := create(t, w, `{"image":"x","guest":{"cpu_kind":"performance","cpus":2,"memory_mb":4096}}`)
	if err := w.SuspendMachine("app", big.ID, ""); err == nil {
		t.Error("a machine of 4 GB was suspended")
	}
}

func TestAnExitBeforeTheMachineIsStartedIsNotOverlooked(t *testing.T) {
	s := &stub{}
	w := open(t, t.TempDir(), s, testImage(t))
	if _, err := w.CreateApp(AppInput{Name: "app"}); err != nil {
		t.Fatal(err)
	}
	m, err := w.CreateMachine("app", MachineInput{Config: []byte(`{"image":"x","restart":{"policy":"no"}}`), SkipLaunch: true})
	if err != nil {
		t.Fatal(err)
	}
	settle(t, w, m.ID)
	w.Disturb(func(f *Faults) { f.SettleDelay = ptr(2 * boots) })
	if _, err := w.StartMachine("app", m.ID, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the instance runs", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.lives) == 1 })
	inst, _ := s.last()
	if err := inst.end(runner.Exit{Code: 3}); err != nil {
		t.Fatal(err)
	}
	now := settle(t, w, m.ID)
	if e := now.Events[len(now.Events)-1]; now.State != state.Stopped || e.Type != "exit" || e.Exit.Code != 3 {
		t.Errorf("%s %+v", now.State, now.Events)
	}
}

// boots is a settle delay long enough to act within it.
const boots = 150 * time.Millisecond

func ptr[T any](v T) *T { return &v }

func TestRoutesHonourNetworkPortAndCordon(t *testing.T) {
	s := &stub{}
	w := open(t, t.TempDir(), s, testImage(t))
	m := create(t, w, `{"image":"x","services":[{"internal_port":8080,"autostart":false,"ports":[{"port":80},{"start_port":9000,"end_port":9010}]}]}`)
	if _, ok := w.Routes("own", "app", 80); ok {
		t.Error("an app without an address was found")
	}
	if _, err := w.AllocateIP("app", IPInput{Type: state.IPPrivateV6, Network: "runtime"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		network string
		port    int
		found   bool
		rows    int
	}{{"own", 80, false, 0}, {"runtime", 80, true, 1}, {"runtime", 9005, true, 1}, {"runtime", 81, true, 0}} {
		rows, ok := w.Routes(c.network, "app", c.port)
		if ok != c.found || len(rows) != c.rows {
			t.Errorf("%+v: %v %+v", c, ok, rows)
		}
	}
	if err := w.SetCordon("app", m.ID, "", true); err != nil {
		t.Fatal(err)
	}
	if err := w.StopMachine("app", m.ID, "", "", 0); err != nil {
		t.Fatal(err)
	}
	settle(t, w, m.ID)
	rows, _ := w.Routes("runtime", "app", 80)
	if want := (Route{Machine: m.ID, InternalPort: 8080, Wakeable: true, Cordoned: true}); !slices.Equal(rows, []Route{want}) {
		t.Errorf("%+v, want %+v", rows, want)
	}
	if ids, ok := w.StartedMachines("runtime", "app"); ok {
		t.Errorf(".internal is open to another network: %v", ids)
	}
	if ids, ok := w.StartedMachines("own", "app"); !ok || len(ids) != 0 {
		t.Errorf("%v %v", ids, ok)
	}
	if _, err := w.AcquireLease("app", m.ID, "", 60, ""); err != nil {
		t.Fatal(err)
	}
	if err := w.Wake(t.Context(), "app", m.ID); err == nil || !strings.Contains(err.Error(), "lease currently held") {
		t.Errorf("the proxy woke a leased machine: %v", err)
	}
}

var _ runner.Runner = (*stub)(nil)

func TestAWakeWaitsForASwapInProgress(t *testing.T) {
	s := &stub{}
	w := open(t, t.TempDir(), s, testImage(t))
	m := create(t, w, `{"image":"x"}`)
	w.Disturb(func(f *Faults) { f.SettleDelay = ptr(boots) })
	if _, err := w.UpdateMachine("app", m.ID, "", MachineInput{Config: []byte(`{"image":"y"}`)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Wake(t.Context(), "app", m.ID); err != nil {
		t.Fatal(err)
	}
	if now, _ := w.Machine("app", m.ID); now.State != state.Started || now.InstanceID == m.InstanceID {
		t.Errorf("%s %s", now.State, now.InstanceID)
	}
	s.set(func() { s.broken = true })
	w.Disturb(func(f *Faults) { f.SettleDelay = ptr(time.Millisecond) })
	if err := w.StopMachine("app", m.ID, "", "", 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Wake(t.Context(), "app", m.ID); err == nil || !strings.Contains(err.Error(), "failed") {
		t.Errorf("a machine that cannot boot was woken: %v", err)
	}
}

func TestFilesOfWhatIsGoneAreSwept(t *testing.T) {
	dir, s := t.TempDir(), &stub{}
	w := open(t, dir, s, testImage(t))
	m := create(t, w, `{"image":"x"}`)
	if err := errors.Join(w.Close(t.Context()), w.store.Close()); err != nil {
		t.Fatal(err)
	}
	for _, orphan := range []string{"data/machines/00000000000000", "data/volumes/vol_gone"} {
		if err := os.MkdirAll(filepath.Join(dir, orphan), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir, s, testImage(t))
	eventually(t, "both are removed, and no other", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Equal(s.removed, []string{filepath.Join(dir, "data/machines/00000000000000"), filepath.Join(dir, "data/volumes/vol_gone")})
	})
	if _, err := os.Stat(filepath.Join(dir, "data/machines", m.ID)); err != nil {
		t.Error(err)
	}
}
