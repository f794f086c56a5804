//go:build linux

package replicatest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
)

// deed is what a tool of a replica is asked to do: leave a trace under an id, wait, and meanwhile stop or kill its own process.
type deed struct {
	ID string `json:"id"`
	// WaitMS passes after the trace was left.
	WaitMS int64 `json:"wait_ms"`
	// Before and After the trace: "freeze" or "die", once; "die always".
	Before string `json:"before"`
	After  string `json:"after"`
}

const deedSchema = `{"type":"object","additionalProperties":false,"required":["id"],"properties":{
	"id":{"type":"string"},"wait_ms":{"type":"integer"},"before":{"type":"string"},"after":{"type":"string"}}}`

// traces are tools of each class that needs no machine, and one that a person has to allow. Each leaves a line in a
// file for each time it had its effect; the target of a keyed one lets that happen once a key.
func traces(dir string) []tools.Tool {
	tool := func(name string, class journalv1.EffectClass, policy journalv1.Policy) tools.Tool {
		return tools.Tool{
			Name: name, Description: "leaves a trace", Schema: json.RawMessage(deedSchema), Class: class, Policy: policy,
			Run: func(ctx context.Context, call tools.Call) (tools.Result, error) { return do(ctx, dir, name, call) },
		}
	}
	const allow, ask = journalv1.Policy_POLICY_ALLOW, journalv1.Policy_POLICY_ASK
	return []tools.Tool{
		tool("opaque", journalv1.EffectClass_EFFECT_CLASS_OPAQUE, allow),
		tool("keyed", journalv1.EffectClass_EFFECT_CLASS_KEYED, allow),
		tool("pure", journalv1.EffectClass_EFFECT_CLASS_PURE, allow),
		tool("gated", journalv1.EffectClass_EFFECT_CLASS_OPAQUE, ask),
	}
}

func do(ctx context.Context, dir, name string, call tools.Call) (tools.Result, error) {
	var d deed
	if err := json.Unmarshal(call.Args, &d); err != nil {
		return tools.Result{}, err
	}
	if err := meet(dir, d.ID+" before", d.Before); err != nil {
		return tools.Result{}, err
	}
	fresh := true
	if name == "keyed" {
		var err error
		if fresh, err = first(dir, "key "+call.Key); err != nil {
			return tools.Result{}, err
		}
	}
	if fresh {
		if err := leave(dir, fmt.Sprintf("%s %s\n", name, d.ID)); err != nil {
			return tools.Result{}, err
		}
	}
	if err := meet(dir, d.ID+" after", d.After); err != nil {
		return tools.Result{}, err
	}
	timer := time.NewTimer(time.Duration(d.WaitMS) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return tools.Result{Content: []byte("did " + d.ID)}, nil
	case <-ctx.Done():
		return tools.Result{}, context.Cause(ctx)
	}
}

// meet is a place at which the process may stop or die.
func meet(dir, place, what string) error {
	signal, always := syscall.SIGSTOP, what == "die always"
	switch what {
	case "":
		return nil
	case "die", "die always":
		signal = syscall.SIGKILL
	}
	if once, err := first(dir, place); err != nil || !once && !always {
		return err
	}
	if always {
		if err := leave(dir, "death "+place+"\n"); err != nil {
			return err
		}
	}
	// To this thread: one that goes to the process may be another thread's, and this one goes on until that has a processor.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return unix.Tgkill(os.Getpid(), unix.Gettid(), signal)
}

// first says whether nobody has said this before, in any process.
func first(dir, what string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, url.PathEscape(what)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// leave appends a line, whole whoever else appends.
func leave(dir, line string) error {
	f, err := os.OpenFile(filepath.Join(dir, "traces"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

// left counts the traces, by tool and id.
func left(t testing.TB, dir string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "traces"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(bytes.ToValidUTF8(text, nil))) {
		counts[strings.TrimSpace(line)]++
	}
	return counts
}
