package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/local"
)

// TestTenantModule runs the module's own tests, tests/*.tftest.hcl, with the provider of this tree.
func TestTenantModule(t *testing.T) {
	const module = "../terraform/modules/tenant"
	bin, work := t.TempDir(), t.TempDir()
	build := exec.Command("go", "build", "-o", bin+"/", "./cmd/terraform-provider-flyfleet")
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the provider: %v\n%s", err, out)
	}
	copyFiles(t, module, "*.tf", work)
	copyFiles(t, module, "tests/*.tftest.hcl", work)
	variables, err := local.Environment(t.TempDir(), bin, local.Endpoint{API: "127.0.0.1:1", Door: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init"}, {"validate"}, {"test"}} {
		cmd := exec.Command("terraform", append(args, "-no-color")...)
		cmd.Dir, cmd.Env = work, os.Environ()
		for _, v := range variables {
			cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("terraform %s: %v (make deps installs terraform)\n%s", args[0], err, out)
		}
	}
}

func copyFiles(t *testing.T, from, pattern, to string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	for _, f := range files {
		rel, err := filepath.Rel(from, f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(f)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, rel), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
