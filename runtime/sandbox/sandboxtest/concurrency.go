package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// many is how many callers come at once.
const many = 64

var concurrencyCases = []Case{
	// e2b-dev/E2B#1407, e2b-dev/E2B#1793
	{Name: "64 commands at once, each with its own output and code", run: func(t *trial) {
		together(t, func(i int) error {
			r, err := t.box.Exec(t.ctx, shell(`echo "out $1"; echo "err $1" >&2; exit "$1"`, fmt.Sprint(i)))
			if err != nil || r.Code != i || string(r.Stdout) != fmt.Sprintf("out %d\n", i) || string(r.Stderr) != fmt.Sprintf("err %d\n", i) {
				return fmt.Errorf("command %d: error %w, result %+v", i, orNone(err), r)
			}
			return nil
		})
	}},
	{Name: "64 commands run at the same time", run: func(t *trial) {
		// Each waits until all are there.
		together(t, func(i int) error {
			r, err := t.box.Exec(t.ctx, shell(`mkdir -p here && touch "here/$1"; while [ "$(ls here | wc -l)" -lt 64 ]; do sleep 1; done`, fmt.Sprint(i)))
			if err != nil || r.Code != 0 {
				return fmt.Errorf("command %d: error %w, code %d", i, orNone(err), r.Code)
			}
			return nil
		})
	}},
	{Name: "64 writers and readers of files of their own", run: func(t *trial) {
		together(t, func(i int) error {
			name, content := fmt.Sprintf("d%d/f", i%8), []byte(strings.Repeat(fmt.Sprint(i), 1000))
			own := fmt.Sprintf("d%d/own-%d", i%8, i)
			err := errors.Join(
				t.box.WriteFile(t.ctx, own, content, sandbox.WriteOptions{}),
				t.box.WriteFile(t.ctx, name, content, sandbox.WriteOptions{}),
			)
			got, readErr := t.box.ReadFile(t.ctx, own, sandbox.Part{})
			_, statErr := t.box.Stat(t.ctx, name)
			_, listErr := t.box.ReadDir(t.ctx, ".")
			if err := errors.Join(err, readErr, statErr, listErr); err != nil || !bytes.Equal(got, content) {
				return fmt.Errorf("caller %d: error %w, content %s", i, orNone(err), short(got))
			}
			return nil
		})
	}},
	{Name: "of 64 writers of one file one wins, whole", run: func(t *trial) {
		together(t, func(i int) error {
			return t.box.WriteFile(t.ctx, "f", []byte(strings.Repeat(fmt.Sprintf("%02d", i), 5000)), sandbox.WriteOptions{})
		})
		got := t.get("f")
		t.same("the content", got, strings.Repeat(got[:2], 5000))
		t.same("what is left", t.list("."), []string{"f"})
	}},
	{Name: "64 makers of the same parents do not trip over each other", run: func(t *trial) {
		together(t, func(i int) error {
			return errors.Join(
				t.box.Mkdir(t.ctx, "a/b/c/d", sandbox.MkdirOptions{Parents: true}),
				t.box.WriteFile(t.ctx, fmt.Sprintf("x/y/z/f%d", i), nil, sandbox.WriteOptions{}),
			)
		})
		t.same("the number of files", len(t.list("x/y/z")), many)
	}},
	// golang/go#22315
	{Name: "a program runs in the moment after it was written", run: func(t *trial) {
		together(t, func(i int) error {
			name := fmt.Sprintf("prog-%d", i)
			content := fmt.Sprintf("#!/bin/sh\nexit %d\n", i)
			if err := t.box.WriteFile(t.ctx, name, []byte(content), sandbox.WriteOptions{Mode: 0o755}); err != nil {
				return err
			}
			r, err := t.box.Exec(t.ctx, sandbox.Command{Argv: []string{"./" + name}})
			if err != nil || r.Code != i {
				return fmt.Errorf("program %d: error %w, code %d (%s)", i, orNone(err), r.Code, r.Message)
			}
			return nil
		})
	}},
	// cloudflare/sandbox-sdk#438, OpenHands/OpenHands#4058
	{Name: "a command that hangs holds nobody up", run: func(t *trial) {
		t.fifo("go")
		p := t.start(shell(`cat go`))
		t.same("another command", t.sh(`echo fine`), "fine\n")
		t.put("f", "x")
		t.holds("f", "x")
		t.release("go")
		t.same("code", t.follow(p, offsets0).exit.Code, 0)
	}},
	{Name: "64 followers of one command get the same", run: func(t *trial) {
		t.fifo("go")
		t.put("out", numbered(300_000))
		p := t.start(shell(`cat out; cat go; cat out`))
		want := numbered(300_000) + "go\n" + numbered(300_000)
		var all sync.WaitGroup
		errs := make([]error, many)
		for i := range errs {
			all.Go(func() {
				var got []byte
				_, err := p.Follow(t.ctx, offsets0, func(o sandbox.Output) error {
					got = append(got, o.Data...)
					return nil
				})
				if err != nil || string(got) != want {
					errs[i] = fmt.Errorf("follower %d: error %w, %s", i, orNone(err), short(got))
				}
			})
		}
		t.release("go")
		all.Wait()
		t.ok(errors.Join(errs...))
	}},
}

func orNone(err error) error {
	if err == nil {
		return errors.New("none")
	}
	return err
}

func together(t *trial, do func(i int) error) {
	t.Helper()
	var all sync.WaitGroup
	errs := make([]error, many)
	for i := range many {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	t.ok(errors.Join(errs...))
}
