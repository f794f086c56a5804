package local

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
)

var someEndpoint = Endpoint{API: "127.0.0.1:4280", Door: "127.0.0.1:4281"}

func environment(t *testing.T, dir, bin string) map[string]string {
	t.Helper()
	all, err := Environment(dir, bin, someEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, v := range all {
		out[v.Name] = v.Value
	}
	return out
}

func TestEnvironmentKeepsItsKeysAndShowsNone(t *testing.T) {
	dir := t.TempDir()
	first, second := environment(t, dir, "/bin"), environment(t, dir, "/bin")
	if first["TF_VAR_flyfleet_trust"] != second["TF_VAR_flyfleet_trust"] || first["FLYFLEET_SIGNING_KEY"] != second["FLYFLEET_SIGNING_KEY"] {
		t.Errorf("the keys changed: %v, %v", first, second)
	}
	for name, value := range first {
		if strings.Contains(value, "ffroot1.") || strings.Contains(value, "ffsign1.") {
			t.Errorf("%s holds a secret key", name)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "keys", "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("keys %v %v", files, err)
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", f, st.Mode(), err)
		}
	}
	trust, err := token.ParseTrust(first["TF_VAR_flyfleet_trust"])
	if err != nil {
		t.Fatal(err)
	}
	key, err := token.LoadSigningKey(first["FLYFLEET_SIGNING_KEY"])
	if err != nil {
		t.Fatal(err)
	}
	scope := "op/" + key.Person()
	signed, err := key.Sign("any-app", "m1", scope, scope, time.Minute, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trust.Verify(signed, "any-app", "m1", time.Now()); err != nil {
		t.Errorf("machines would refuse the key: %v", err)
	}
}

func TestSigningKeyIsRenewedBeforeItEnds(t *testing.T) {
	dir := t.TempDir()
	root, err := localRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	read := func(now time.Time) string {
		path, err := localKey(dir, root, now)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	now := time.Now()
	first := read(now)
	if read(now.Add(keyLife/2)) != first {
		t.Error("a key in the middle of its life was replaced")
	}
	if read(now.Add(keyLife-time.Hour)) == first {
		t.Error("a key at its end was kept")
	}
}

func TestExportedLinesAreQuotedForTheShell(t *testing.T) {
	var b bytes.Buffer
	export(&b, []Variable{{"A", `it's $HOME "x"`}, {"B", ""}})
	out, err := exec.Command("sh", "-c", b.String()+`printf '%s|%s' "$A" "$B"`).CombinedOutput()
	if err != nil || string(out) != `it's $HOME "x"|` {
		t.Errorf("%q %v from %s", out, err, b.String())
	}
}

// The lock file must outlive a rebuilt provider, and init must find a package although nothing is published.
func TestTerraformInitOutlivesARebuiltProvider(t *testing.T) {
	dir, bin, work := t.TempDir(), t.TempDir(), t.TempDir()
	config := "terraform {\n  required_providers {\n    flyfleet = {\n      source = \"flyfleet/flyfleet\"\n    }\n  }\n}\n"
	if err := os.WriteFile(filepath.Join(work, "main.tf"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	var lock []byte
	for _, build := range []string{"first build", "another build", "a third"} {
		if err := os.WriteFile(filepath.Join(bin, providerBinary), []byte(build), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("terraform", "init", "-no-color")
		cmd.Dir, cmd.Env = work, os.Environ()
		for name, value := range environment(t, dir, bin) {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v (make deps installs terraform)\n%s", build, err, out)
		}
		now, err := os.ReadFile(filepath.Join(work, ".terraform.lock.hcl"))
		if err != nil {
			t.Fatal(err)
		}
		if lock != nil && !bytes.Equal(lock, now) {
			t.Errorf("%s changed the lock file:\n%s", build, now)
		}
		lock = now
	}
}

func TestLauncherRunsTheProviderOfTheEnvironment(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	provider := filepath.Join(bin, providerBinary)
	if err := os.WriteFile(provider, []byte("#!/bin/sh\necho provider \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := environment(t, dir, bin)
	found, err := filepath.Glob(filepath.Join(dir, "terraform", "mirror", "*", "*", "*", "*", "*", providerBinary+"_v*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("mirror: %v %v", found, err)
	}
	cmd := exec.Command(found[0], "an argument")
	cmd.Env = []string{ProviderVariable + "=" + env[ProviderVariable]}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "provider an argument\n" {
		t.Errorf("%q %v", out, err)
	}
	cmd = exec.Command(found[0])
	cmd.Env = []string{}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), `run: eval "$(flyfleet local env)"`) {
		t.Errorf("%q %v", out, err)
	}
}
