package flylocal_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/net/proxy"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/runnertest"
)

func TestMain(m *testing.M) {
	machineinit.RunIfInit()
	runnertest.App()
	os.Exit(m.Run())
}

// pushApp pushes an image whose program answers lines in capitals on port 8080.
func pushApp(t *testing.T, p *flylocal.Platform, ref, label string) string {
	t.Helper()
	img, err := mutate.Config(runnertest.Image(t, runnertest.AppLayer(t)), v1.Config{
		Entrypoint: []string{runnertest.AppPath, runnertest.AppArg, "serve"}, Cmd: []string{"[::]:8080"}, Labels: map[string]string{"v": label},
	})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(p.RegistryHost() + "/" + ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img, login(t, p)...); err != nil {
		t.Fatal(err)
	}
	return p.RegistryHost() + "/" + tag.RepositoryStr() + "@" + digestOf(t, img)
}

// dial goes through the SOCKS door as a client on a network.
func dial(t *testing.T, p *flylocal.Platform, network, address string) (net.Conn, error) {
	t.Helper()
	d, err := proxy.SOCKS5("tcp", p.SocksAddr(), &proxy.Auth{User: network, Password: "x"}, &net.Dialer{Timeout: deadline})
	if err != nil {
		t.Fatal(err)
	}
	return d.Dial("tcp", address)
}

func say(t *testing.T, p *flylocal.Platform, network, address string) {
	t.Helper()
	conn, err := dial(t, p, network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if answer, err := runnertest.Say(conn, "hello"); err != nil || answer != "HELLO" {
		t.Fatalf("%s answered %q, %v", address, answer, err)
	}
}

// The whole platform with real processes: pushed image, volume, check, private network, command, swap, crash, restart.
func TestRealMachinesLiveThroughSwapCrashAndRestart(t *testing.T) {
	dir := t.TempDir()
	options := func(o *flylocal.Options) { o.Dir, o.Runner = dir, "namespace" }
	p := start(t, options)
	newApp(t, p, "tenant")
	must(t, p, "POST", "/v1/apps/tenant/ip_assignments", `{"type":"private_v6","network":"runtime"}`)
	var v struct{ ID string }
	must(t, p, "POST", "/v1/apps/tenant/volumes", `{"name":"data","size_gb":1}`).decode(t, &v)
	config := func(image string) string {
		return `{"name":"main","config":{"image":"` + image + `","mounts":[{"volume":"` + v.ID + `","path":"/data"}],
			"stop_config":{"signal":"SIGTERM","timeout":"20s"},
			"services":[{"internal_port":8080,"protocol":"tcp","autostart":true,"ports":[{"port":8080}],"checks":[{"type":"tcp","interval":"50ms"}]}]}}`
	}
	m := newMachine(t, p, "tenant", config(pushApp(t, p, "tenant:v1", "1")))
	if m.State != "started" {
		t.Fatalf("%s", m.State)
	}
	passing := func() bool {
		now := get(t, p, "tenant", m.ID)
		return len(now.Checks) == 1 && now.Checks[0].Status == "passing"
	}
	eventually(t, "the check passes", passing)
	say(t, p, "runtime", "tenant.flycast:8080")
	say(t, p, "tenant", m.ID+".vm.tenant.internal:8080")
	if conn, err := dial(t, p, "elsewhere", "tenant.flycast:8080"); err == nil {
		conn.Close()
		t.Error("another network reaches the machine")
	}
	path := "/v1/apps/tenant/machines/" + m.ID
	var ran struct {
		Code int `json:"exit_code"`
	}
	must(t, p, "POST", path+"/exec", `{"command":["`+runnertest.AppPath+`","`+runnertest.AppArg+`","exit","5"],"timeout":20}`).decode(t, &ran)
	if ran.Code != 5 {
		t.Errorf("the command ended with %d", ran.Code)
	}
	var processes []struct{ Command string }
	if must(t, p, "GET", path+"/ps", nil).decode(t, &processes); len(processes) == 0 {
		t.Error("ps lists nothing")
	}
	second := pushApp(t, p, "tenant:v2", "2")
	must(t, p, "POST", path, config(second))
	if now := settled(t, p, "tenant", m.ID); now.State != "started" || !strings.HasSuffix(second, now.ImageRef.Digest) {
		t.Fatalf("after the swap: %s %+v", now.State, now.ImageRef)
	}
	eventually(t, "the check passes again", passing)
	must(t, p, "POST", path, config(strings.Replace(second, "@sha256:", "@sha256:"+strings.Repeat("0", 8), 1)[:len(second)]))
	if now := settled(t, p, "tenant", m.ID); now.State != "started" || !strings.HasSuffix(second, now.ImageRef.Digest) {
		t.Fatalf("after a pull that fails: %s %+v", now.State, now.ImageRef)
	}
	must(t, p, "POST", path+"/suspend", nil)
	settled(t, p, "tenant", m.ID)
	say(t, p, "runtime", "tenant.flycast:8080") // The door wakes it.
	must(t, p, "POST", path+"/stop", nil)
	if now := settled(t, p, "tenant", m.ID); now.State != "stopped" || now.Events[0].Type != "exit" || now.Events[0].Request.ExitEvent.ExitCode != 7 {
		t.Fatalf("after the stop: %s %+v", now.State, now.Events[0])
	}
	say(t, p, "runtime", "tenant.flycast:8080")
	must(t, p, "POST", path+"/signal", `{"signal":9}`)
	eventually(t, "it comes back after a crash", func() bool {
		now := get(t, p, "tenant", m.ID)
		return now.State == "started" && now.Events[0].Type == "start" && now.Events[1].Type == "exit"
	})
	eventually(t, "the check passes after the crash", passing)
	before := get(t, p, "tenant", m.ID)
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p = start(t, options)
	if now := settled(t, p, "tenant", m.ID); now.State != "started" || now.InstanceID != before.InstanceID {
		t.Fatalf("after the restart: %s %s", now.State, now.InstanceID)
	}
	say(t, p, "runtime", "tenant.flycast:8080")
	must(t, p, "DELETE", "/v1/apps/tenant", nil)
	eventually(t, "its files are gone", func() bool {
		left, err := os.ReadDir(dir + "/data/machines")
		return err == nil && len(left) == 0
	})
}
