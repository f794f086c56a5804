package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var ownersCases = []Case{
	{Name: "once a later owner was here, whatever an earlier one asks is ErrFenced and does nothing", Needs: Owned, run: func(t *trial) {
		owner := t.harness.Owned(t)
		first, second := t.as(owner(1)), t.as(owner(2))
		first.put("f", "of the first")
		p := first.start(shell(`cat fifo; exit 3`))
		second.put("f", "of the second")
		fencedOut(t, first.box)
		for what, err := range map[string]error{
			"Write":  p.Write(t.ctx, 0, []byte("x"), true),
			"Resize": p.Resize(t.ctx, sandbox.Size{Cols: 80, Rows: 24}),
			"Hold":   p.Hold(t.ctx, "key", t.unit()),
			"Forget": p.Forget(t.ctx),
		} {
			fenced(t, what, err)
		}
		_, err := p.Signal(t.ctx, int(syscall.SIGKILL), sandbox.Tree)
		fenced(t, "Signal", err)
		second.holds("f", "of the second")
		second.same("what is there", second.list("."), []string{"f"})
	}},
	{Name: "a Follow of an earlier owner ends as ErrFenced when a later one comes, and the command runs on", Needs: Owned, run: func(t *trial) {
		owner := t.harness.Owned(t)
		first, second := t.as(owner(1)), t.as(owner(2))
		first.fifo("gate")
		p := first.start(shell(`echo begun; cat gate; exit 3`))
		begun, ended := make(chan struct{}, 1), make(chan error, 1)
		go func() {
			_, err := p.Follow(t.ctx, offsets0, func(sandbox.Output) error {
				select {
				case begun <- struct{}{}:
				default:
				}
				return nil
			})
			ended <- err
		}()
		await(t, "the first output", begun)
		later, err := second.box.Attach(t.ctx, p.ID())
		t.ok(err)
		fenced(t, "Follow", await(t, "the end of the earlier owner's Follow", ended))
		second.release("gate")
		got := second.follow(later, offsets0)
		t.same("code", got.exit.Code, 3)
		t.same("all of its output", string(got.stdout), "begun\ngo\n")
	}},
	{Name: "a later owner gets the first answer of what an earlier one did once", Needs: Owned, run: func(t *trial) {
		owner := t.harness.Owned(t)
		first, second := t.as(owner(1)), t.as(owner(2))
		onceEach(t, first, second)
	}},
	{Name: "an owner stays the owner until a later one comes", Needs: Owned, run: func(t *trial) {
		owner := t.harness.Owned(t)
		first, same := t.as(owner(7)), t.as(owner(7))
		first.put("f", "x")
		same.holds("f", "x")
		first.put("f", "y")
		same.holds("f", "y")
	}},
}

// as is the trial with another sandbox.
func (t *trial) as(box sandbox.Sandbox) *trial {
	other := *t
	other.box = box
	return &other
}

func fenced(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, sandbox.ErrFenced) {
		t.Errorf("%s: got error %v, want ErrFenced", what, err)
	}
}

// fencedOut holds every verb of a sandbox to be ErrFenced.
func fencedOut(t *trial, box sandbox.Sandbox) {
	t.Helper()
	for what, call := range map[string]func() error{
		"Exec":       func() error { _, err := box.Exec(t.ctx, shell(`touch ran`)); return err },
		"Start":      func() error { _, err := box.Start(t.ctx, shell(`touch ran`)); return err },
		"Forbid":     func() error { _, err := box.Forbid(t.ctx, freshID()); return err },
		"WriteFile":  func() error { return box.WriteFile(t.ctx, "new", nil, sandbox.WriteOptions{}) },
		"Mkdir":      func() error { return box.Mkdir(t.ctx, "new", sandbox.MkdirOptions{}) },
		"Remove":     func() error { return box.Remove(t.ctx, "f", allOfIt) },
		"ReadFile":   func() error { _, err := box.ReadFile(t.ctx, "f", sandbox.Part{}); return err },
		"Stat":       func() error { _, err := box.Stat(t.ctx, "f"); return err },
		"Exists":     func() error { _, err := box.Exists(t.ctx, "f"); return err },
		"ReadDir":    func() error { _, err := box.ReadDir(t.ctx, "."); return err },
		"WriteFiles": func() error { _, err := box.WriteFiles(t.ctx, []sandbox.File{{Name: "f"}, {Name: "new"}}); return err },
		"ReadFiles":  func() error { _, err := box.ReadFiles(t.ctx, []string{"f"}, 0); return err },
		"StatMany":   func() error { _, err := box.StatMany(t.ctx, []string{"f"}); return err },
		"ReadTree":   func() error { return box.ReadTree(t.ctx, ".", &bytes.Buffer{}, sandbox.TreeOptions{}) },
		"WriteTree": func() error {
			return box.WriteTree(t.ctx, "new", bytes.NewReader(archive(t, file("f", "x"))), sandbox.TreeOptions{})
		},
		"a call on Once": func() error { return box.Once(freshID()).WriteFile(t.ctx, "new", nil, sandbox.WriteOptions{}) },
	} {
		fenced(t, what, call())
	}
}

// onceEach does each verb once by one sandbox, lets others change what it did, and holds its repeat by another to give the first answer.
func onceEach(t *trial, first, second *trial, between ...func()) {
	t.Helper()
	ids, answers := make([]string, len(onceVerbs)), make([]string, len(onceVerbs))
	place := func(by *trial, i int) *trial { return by.as(by.box.In(fmt.Sprint(i))) }
	for i, v := range onceVerbs {
		first.mkdir(fmt.Sprint(i))
		by := place(first, i)
		v.before(by)
		ids[i] = freshID()
		answers[i] = v.do(by, by.box.Once(ids[i]))
		v.others(by)
	}
	for _, do := range between {
		do()
	}
	for i, v := range onceVerbs {
		by := place(second, i)
		t.same("the repeated answer of "+v.name, v.do(by, by.box.Once(ids[i])), answers[i])
		v.stays(by)
	}
}
