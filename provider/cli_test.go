package provider_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/flyfleet/terraform-provider-flyfleet/provider"
)

// workspace is a folder in which the terraform command runs against the provider in this process, for what the test
// framework has no words for: -replace, saved plans, state of a failed apply.
type workspace struct {
	dir string
	env []string
}

const header = `
terraform {
  required_providers {
    flyfleet = { source = "flyfleet/flyfleet" }
  }
}
`

func (p *platform) workspace(t *testing.T) *workspace {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	configs, closed := make(chan *plugin.ReattachConfig, 1), make(chan struct{})
	factory := providerserver.NewProtocol6(provider.New("test", func(k string) string { return p.env[k] })())
	failed := make(chan error, 1)
	go func() {
		failed <- tf6server.Serve(provider.Address, func() tfprotov6.ProviderServer { return factory() },
			tf6server.WithDebug(ctx, configs, closed), tf6server.WithLoggingSink(t), tf6server.WithGoPluginLogger(hclog.NewNullLogger()))
	}()
	t.Cleanup(func() {
		cancel()
		<-closed
		if err := <-failed; err != nil {
			t.Errorf("serve the provider: %v", err)
		}
	})
	var at *plugin.ReattachConfig
	select {
	case at = <-configs:
	case err := <-failed:
		t.Fatalf("serve the provider: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("the provider does not serve")
	}
	reattach, err := json.Marshal(map[string]any{provider.Address: map[string]any{
		"Protocol": at.Protocol, "ProtocolVersion": at.ProtocolVersion, "Pid": at.Pid, "Test": true,
		"Addr": map[string]any{"Network": at.Addr.Network(), "String": at.Addr.String()},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &workspace{dir: t.TempDir(), env: append(os.Environ(), "TF_REATTACH_PROVIDERS="+string(reattach), "TF_IN_AUTOMATION=1", "TF_INPUT=0", "TF_CLI_ARGS=-no-color")}
}

// write replaces the configuration.
func (w *workspace) write(t *testing.T, config string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "main.tf"), []byte(header+config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// terraform runs a command and returns what it said; failing is an outcome.
func (w *workspace) terraform(t *testing.T, args ...string) (said string, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Getenv("TF_ACC_TERRAFORM_PATH"), args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// must is terraform where failing is none.
func (w *workspace) must(t *testing.T, args ...string) string {
	t.Helper()
	said, ok := w.terraform(t, args...)
	if !ok {
		t.Fatalf("terraform %v:\n%s", args, said)
	}
	return said
}
