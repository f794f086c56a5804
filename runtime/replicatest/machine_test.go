//go:build linux

package replicatest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/remote"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
)

// onMachine gives the rig's replicas a machine with a control server, and a directory on it.
func (r *rig) onMachine(t *testing.T) {
	t.Helper()
	m := machinetest.Start(t, machinetest.Options{})
	// Commands run as a user of their own, who must get there.
	dir, err := os.MkdirTemp(filepath.Dir(m.Data), "workspace")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r.settings.Machine = &machineSettings{
		App: machinetest.App, ID: machinetest.ID, Address: m.Address, Dir: dir, Key: m.Key.String(), Log: filepath.Join(t.TempDir(), "notes"),
	}
}

// file is one of the machine's.
func (r *rig) file(name string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.settings.Machine.Dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Fatal(err)
	}
	return string(text)
}

// box is the machine as the owner with that fence sees it.
func (r *rig) box(w work, fence int64) *remote.Sandbox {
	r.t.Helper()
	key, err := token.ParseSigningKey(r.settings.Machine.Key)
	if err != nil {
		r.t.Fatal(err)
	}
	box, err := r.settings.Machine.box(key, store.Claim{Session: w.session, Fence: fence}, slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(box.Close)
	return box
}

// notes are what owners did on the machine.
func (r *rig) notes() []note {
	r.t.Helper()
	text, err := os.ReadFile(r.settings.Machine.Log)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Fatal(err)
	}
	var all []note
	for line := range bytes.Lines(text) {
		var n note
		if err := json.Unmarshal(line, &n); err != nil {
			r.t.Fatalf("%q: %v", line, err)
		}
		all = append(all, n)
	}
	return all
}

// exec waits for the session's command to be under way and gives its id.
func (r *rig) exec(w work) uuid.UUID {
	r.t.Helper()
	var id uuid.UUID
	r.soon("the command runs and its output arrives", func() bool {
		running, err := r.store.RunningExecs(r.t.Context(), w.session)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(running) == 0 {
			return false
		}
		id = running[0].ID
		ends, err := r.store.OutputEnds(r.t.Context(), id)
		return err == nil && ends.Stdout > 0
	})
	return id
}

// output is all that is kept of a command's output, without a hole.
func (r *rig) output(exec uuid.UUID) string {
	r.t.Helper()
	chunks, err := r.store.ReadOutput(r.t.Context(), tenant, exec, store.Stdout, 0, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	var all strings.Builder
	for _, chunk := range chunks {
		if chunk.Off != int64(all.Len()) {
			r.t.Fatalf("a chunk begins at %d, the one before ended at %d", chunk.Off, all.Len())
		}
		all.Write(chunk.Data)
	}
	return all.String()
}

func fenceOf(t *testing.T, r *rig, w work) int64 {
	t.Helper()
	now, err := r.store.Session(t.Context(), tenant, w.session)
	if err != nil {
		t.Fatal(err)
	}
	return now.Fence
}

// An owner stands still while its command runs. The next one finds the command and follows it to its end; the machine refuses
// whatever comes under the old fence, and the old owner, going on, tries nothing that matters.
func TestMachineRefusesAFrozenOwner(t *testing.T) {
	t.Parallel()
	ttl := either(time.Second, 15*time.Second)
	lines := either(60, 800)
	r := newRig(t, ttl)
	r.onMachine(t)
	first := r.start()
	w := r.submit("w", fmt.Sprintf("run: for i in $(seq 1 %d); do echo $i >> count; echo line $i; sleep 0.1; done\nsay: done", lines))
	exec := r.exec(w)
	old := fenceOf(t, r, w)
	first.freeze()
	since := time.Now()
	second := r.start()
	r.soon("the second owns the session", func() bool { return r.owned(second) == 1 })
	before, err := r.store.OutputEnds(t.Context(), exec)
	if err != nil {
		t.Fatal(err)
	}
	r.soon("output goes on", func() bool {
		now, err := r.store.OutputEnds(t.Context(), exec)
		return err == nil && now.Stdout > before.Stdout
	})
	r.refuses(w, old, exec)
	r.soon("the first was away for long", func() bool { return time.Since(since) >= either(2*ttl, time.Minute) })
	first.thaw()
	r.soon("the first knows", func() bool { return first.status().Running == 0 })
	r.completes([]work{w})
	r.audit([]work{w})
	r.faultless()
	var want, counted strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "line %d\n", i+1)
		fmt.Fprintf(&counted, "%d\n", i+1)
	}
	if got := r.output(exec); got != want.String() {
		t.Errorf("the output has %d bytes, want %d", len(got), want.Len())
	}
	if got := r.file("count"); got != counted.String() {
		t.Errorf("the command did %d bytes of its work, want %d", len(got), counted.Len())
	}
	r.noneStale(old)
	if first.status().Fenced < 1 || second.status().TakenOver < 1 {
		t.Errorf("first %+v, second %+v", first.status(), second.status())
	}
}

// refuses: nothing is done for the old owner while the command runs for the new one.
func (r *rig) refuses(w work, old int64, exec uuid.UUID) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	stale := r.box(w, old)
	tries := map[string]error{}
	_, tries["start"] = stale.Start(ctx, sandbox.Command{ID: store.NewID().String(), Argv: []string{"/bin/sh", "-c", "echo stale >> count"}})
	tries["write"] = stale.WriteFile(ctx, "count", []byte("stale"), sandbox.WriteOptions{})
	_, tries["forbid"] = stale.Forbid(ctx, store.NewID().String())
	process, err := stale.Attach(ctx, exec.String())
	if err == nil {
		_, tries["signal"] = process.Signal(ctx, int(syscall.SIGKILL), sandbox.Tree)
		tries["forget"] = process.Forget(ctx)
	} else {
		tries["attach"] = err
	}
	for verb, err := range tries {
		if !errors.Is(err, sandbox.ErrFenced) {
			r.t.Errorf("%s under the old fence: %v, want a refusal", verb, err)
		}
	}
}

// noneStale: after a later owner had done something on the machine, nothing was done there by the old one.
func (r *rig) noneStale(old int64) {
	r.t.Helper()
	var later time.Time
	notes := r.notes()
	for _, n := range notes {
		if n.Fence > old && n.Done && (later.IsZero() || n.End.Before(later)) {
			later = n.End
		}
	}
	if later.IsZero() {
		r.t.Errorf("no later owner did anything: %+v", notes)
	}
	for _, n := range notes {
		if n.Fence <= old && n.Done && n.Begin.After(later) {
			r.t.Errorf("%+v, after a later owner at %s", n, later)
		}
	}
}

// An owner that was told to end a command stands still between TERM and KILL. The next one ends the command; the old one's
// KILL comes too late to be anything.
func TestFrozenOwnerKillsNothingMore(t *testing.T) {
	t.Parallel()
	r := newRig(t, either(time.Second, 15*time.Second))
	r.onMachine(t)
	first := r.start()
	w := r.submit("w", "run: trap 'echo told >> told' TERM; echo up; while :; do sleep 0.1; done\nsay: never")
	r.exec(w)
	old := fenceOf(t, r, w)
	if err := r.store.Cancel(t.Context(), tenant, w.id); err != nil {
		t.Fatal(err)
	}
	r.soon("the command is told to end", func() bool { return r.file("told") != "" })
	first.freeze()
	second := r.start()
	if now := r.settled(w); now.Attempts != 1 {
		t.Errorf("settled after %d attempts", now.Attempts)
	}
	first.thaw()
	r.soon("the first knows", func() bool { return first.status().Running == 0 })
	r.audit([]work{w})
	r.faultless()
	if second.status().TakenOver < 1 {
		t.Errorf("second %+v", second.status())
	}
	r.noneStale(old)
	entries, _ := r.history(w)
	kinds := map[journal.Kind]int{}
	for _, entry := range entries {
		kinds[entry.Kind]++
	}
	if kinds[journal.KindExecExited] != 1 || kinds[journal.KindToolResult] != 1 || kinds[journal.KindSubmissionSettled] != 1 {
		t.Errorf("entries %v", kinds)
	}
}
