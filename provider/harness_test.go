package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
	"github.com/flyfleet/terraform-provider-flyfleet/provider"
)

// These tests run real Terraform against the provider in this process, which talks to a local Fly platform in this
// process, whose machines are states without processes.

func TestMain(m *testing.M) {
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need terraform on the PATH; install it with: make deps")
		os.Exit(1)
	}
	for k, v := range map[string]string{"TF_ACC": "1", "TF_ACC_TERRAFORM_PATH": terraform, "CHECKPOINT_DISABLE": "1", "TF_CLI_CONFIG_FILE": os.DevNull} {
		if err := os.Setenv(k, v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// platform is a local Fly and the environment that leads a provider to it.
type platform struct {
	*flylocal.Platform
	env map[string]string
}

func startPlatform(t *testing.T) *platform {
	t.Helper()
	p, err := flylocal.Start(t.Context(), flylocal.Options{Dir: t.TempDir(), Runner: "none", SettleDelay: 5 * time.Millisecond, UnbindDelay: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("close the local platform: %v", err)
		}
	})
	return &platform{Platform: p, env: map[string]string{
		"FLY_API_TOKEN": p.Token(), "FLY_ORG": p.Org(), "FLY_FLAPS_BASE_URL": p.URL(), "FLY_API_BASE_URL": p.URL(), "FLY_REGISTRY_HOST": p.RegistryHost(),
	}}
}

func (p *platform) factories() map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){
		"flyfleet": providerserver.NewProtocol6WithError(provider.New("test", func(k string) string { return p.env[k] })()),
	}
}

// run runs the steps with real Terraform.
func (p *platform) run(t *testing.T, steps ...resource.TestStep) {
	t.Helper()
	resource.Test(t, resource.TestCase{ProtoV6ProviderFactories: p.factories(), Steps: steps})
}

// writes are the calls since n that changed something, as "METHOD path".
func (p *platform) writes(n int) []string {
	var out []string
	for _, r := range p.Faults.Requests(n) {
		switch {
		case r.Method == http.MethodGet || r.Method == http.MethodHead, strings.HasPrefix(r.Path, "/v2/"), r.Path == "/graphql", strings.HasSuffix(r.Path, "/lease"), strings.HasSuffix(r.Path, "/exec"):
		default:
			out = append(out, r.Method+" "+r.Path)
		}
	}
	return out
}

// mark is the number of the last request so far.
func (p *platform) mark() int {
	all := p.Faults.Requests(0)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].Seq
}

func count(list []string, prefix string) int {
	n := 0
	for _, s := range list {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// digestOf is a digest that differs by n.
func digestOf(n int) string { return fmt.Sprintf("sha256:%064x", n) }

func imageOf(n int) string { return "registry.fly.io/images@" + digestOf(n) }

// request makes a raw call, as another tool would.
func (p *platform) request(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.URL()+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.Token())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode > 299 {
		t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, said, err)
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal(said, answer); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

func (p *platform) get(t *testing.T, path string, answer any) {
	t.Helper()
	p.request(t, http.MethodGet, path, nil, answer)
}

func (p *platform) post(t *testing.T, path string, body any) {
	t.Helper()
	p.request(t, http.MethodPost, path, body, nil)
}
