package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"
)

// programs builds the project's binaries once for all tests of the package.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "flyfleet-acceptance-bin")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"terraform-provider-flyfleet", "flyfleet-controlserver", "flyfleet"} {
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", filepath.Join(dir, name), "../../cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return dir, nil
})

func binary(t testing.TB, name string) string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// workspace is one Terraform configuration with its state, run by the real terraform.
type workspace struct {
	t       testing.TB
	dir     string
	env     []string
	pidFile string // last provider process started, when the provider runs behind a wrapper
}

// newWorkspace makes an empty configuration whose provider is the binary built from this tree, started
// through a wrapper that notes its process id, so that a test can kill it.
func newWorkspace(t testing.TB, env map[string]string) *workspace {
	t.Helper()
	dir := t.TempDir()
	w := &workspace{t: t, dir: dir, pidFile: filepath.Join(dir, "provider.pid")}
	overrides := filepath.Join(dir, "provider")
	if err := os.Mkdir(overrides, 0o755); err != nil {
		t.Fatal(err)
	}
	wrapper := fmt.Sprintf("#!/bin/sh\necho $$ > %s\nexec %s \"$@\"\n", w.pidFile, binary(t, "terraform-provider-flyfleet"))
	if err := os.WriteFile(filepath.Join(overrides, "terraform-provider-flyfleet"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"flyfleet/flyfleet\" = %q\n  }\n  direct {}\n}\n", overrides)
	w.write("terraform.rc", config)
	w.env = cleanEnv(map[string]string{"TF_CLI_CONFIG_FILE": filepath.Join(dir, "terraform.rc"), "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"})
	for name, value := range env {
		w.env = append(w.env, name+"="+value)
	}
	return w
}

// cleanEnv is what a child needs from this process, and nothing that would point it elsewhere.
func cleanEnv(extra map[string]string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir()}
	for name, value := range extra {
		env = append(env, name+"="+value)
	}
	return env
}

func (w *workspace) write(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

type runResult struct {
	Output string
	Err    error
}

// run calls terraform and returns what it printed; the caller judges.
func (w *workspace) run(args ...string) runResult {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "terraform", append([]string{"-chdir=" + w.dir}, args...)...)
	cmd.Env = w.env
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return runResult{Output: out.String(), Err: err}
}

func (w *workspace) must(args ...string) string {
	w.t.Helper()
	result := w.run(args...)
	if result.Err != nil {
		w.t.Fatalf("terraform %s: %v\n%s", strings.Join(args, " "), result.Err, result.Output)
	}
	return result.Output
}

func (w *workspace) apply(args ...string) string {
	w.t.Helper()
	return w.must(append([]string{"apply", "-auto-approve", "-input=false", "-no-color"}, args...)...)
}

// plan saves a plan and returns its changes.
func (w *workspace) plan(args ...string) planned {
	w.t.Helper()
	w.must(append([]string{"plan", "-input=false", "-no-color", "-out=saved.tfplan"}, args...)...)
	return w.showPlan()
}

func (w *workspace) showPlan() planned {
	w.t.Helper()
	cmd := exec.Command("terraform", "-chdir="+w.dir, "show", "-json", "saved.tfplan")
	cmd.Env = w.env
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("terraform show: %v", err)
	}
	var p planned
	if err := json.Unmarshal(out, &p); err != nil {
		w.t.Fatalf("terraform show printed something that is not JSON: %v", err)
	}
	return p
}

// planned is the part of a plan's JSON that the tests judge.
type planned struct {
	ResourceChanges []resourceChange `json:"resource_changes"`
}

type resourceChange struct {
	Address string `json:"address"`
	Type    string `json:"type"`
	Change  struct {
		Actions      []string       `json:"actions"`
		Before       map[string]any `json:"before"`
		After        map[string]any `json:"after"`
		AfterUnknown map[string]any `json:"after_unknown"`
	} `json:"change"`
}

// changed lists the addresses with an action other than no-op and read.
func (p planned) changed() []resourceChange {
	var out []resourceChange
	for _, c := range p.ResourceChanges {
		if !slices.Equal(c.Change.Actions, []string{"no-op"}) && !slices.Equal(c.Change.Actions, []string{"read"}) {
			out = append(out, c)
		}
	}
	return out
}

// attributes lists the top-level attributes that differ or are unknown after apply.
func (c resourceChange) attributes() []string {
	names := map[string]bool{}
	for name := range c.Change.Before {
		names[name] = true
	}
	for name := range c.Change.After {
		names[name] = true
	}
	var out []string
	for name := range names {
		before, _ := json.Marshal(c.Change.Before[name])
		after, _ := json.Marshal(c.Change.After[name])
		if !bytes.Equal(before, after) || anyTrue(c.Change.AfterUnknown[name]) {
			out = append(out, name)
		}
	}
	for name, unknown := range c.Change.AfterUnknown {
		if anyTrue(unknown) && !names[name] {
			out = append(out, name+" (unknown)")
		}
	}
	sort.Strings(out)
	return out
}

// anyTrue says whether an after_unknown tree marks anything.
func anyTrue(tree any) bool {
	switch v := tree.(type) {
	case bool:
		return v
	case []any:
		return slices.ContainsFunc(v, anyTrue)
	case map[string]any:
		for _, child := range v {
			if anyTrue(child) {
				return true
			}
		}
	}
	return false
}
