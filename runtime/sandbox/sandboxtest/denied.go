package sandboxtest

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var deniedCases = []Case{
	{Name: "a file that may not be read is EACCES", Needs: Denied, run: func(t *trial) {
		t.sh(`echo secret > f && chmod 0200 f`)
		_, err := t.box.ReadFile(t.ctx, "f", sandbox.Part{})
		t.errno(err, "f", syscall.EACCES)
		t.is(err, fs.ErrPermission)
	}},
	{Name: "a directory that may not be read is EACCES, what is in it can be reached", Needs: Denied, run: func(t *trial) {
		closed(t, "0300")
		_, err := t.box.ReadDir(t.ctx, "d")
		t.errno(err, "d", syscall.EACCES)
		t.holds("d/f", "x\n")
	}},
	{Name: "a directory that may not be searched is EACCES to all that is below", Needs: Denied, run: func(t *trial) {
		closed(t, "0600")
		for _, name := range []string{"d/f", "d/missing", "d/sub/x"} {
			_, err := t.box.Stat(t.ctx, name)
			t.errno(err, name, syscall.EACCES)
			_, err = t.box.Exists(t.ctx, name)
			t.errno(err, name, syscall.EACCES)
			_, err = t.box.ReadFile(t.ctx, name, sandbox.Part{})
			t.errno(err, name, syscall.EACCES)
			t.errno(t.box.WriteFile(t.ctx, name, []byte("x"), sandbox.WriteOptions{}), name, syscall.EACCES)
			t.errno(t.box.Mkdir(t.ctx, name, sandbox.MkdirOptions{}), name, syscall.EACCES)
			t.errno(t.box.Remove(t.ctx, name, forced), name, syscall.EACCES)
		}
		t.there("d", true)
	}},
	{Name: "a directory that may not be written is EACCES, and stays as it is", Needs: Denied, run: func(t *trial) {
		closed(t, "0500")
		t.errno(t.box.WriteFile(t.ctx, "d/f", []byte("new"), sandbox.WriteOptions{}), "d/f", syscall.EACCES)
		t.errno(t.box.WriteFile(t.ctx, "d/new", nil, sandbox.WriteOptions{}), "d/new", syscall.EACCES)
		t.errno(t.box.WriteFile(t.ctx, "d/a/new", nil, sandbox.WriteOptions{}), "d/a/new", syscall.EACCES)
		t.errno(t.box.Mkdir(t.ctx, "d/new", sandbox.MkdirOptions{}), "d/new", syscall.EACCES)
		t.errno(t.box.Mkdir(t.ctx, "d/new/x", sandbox.MkdirOptions{Parents: true}), "d/new/x", syscall.EACCES)
		t.errno(t.box.Remove(t.ctx, "d/f", forced), "d/f", syscall.EACCES)
		t.errno(t.box.Remove(t.ctx, "d", allOfIt), "d", syscall.EACCES)
		t.same("what is left", t.list("d"), []string{"f"})
		t.holds("d/f", "x\n")
	}},
	{Name: "a link through a closed directory is EACCES", Needs: Denied, run: func(t *trial) {
		closed(t, "0600")
		t.sh(`ln -s d/f l`)
		_, err := t.box.ReadFile(t.ctx, "l", sandbox.Part{})
		t.errno(err, "l", syscall.EACCES)
		_, err = t.box.Stat(t.ctx, "l")
		t.errno(err, "l", syscall.EACCES)
		t.there("l", true)
	}},
	{Name: "batches tell it of each", Needs: Denied, run: func(t *trial) {
		closed(t, "0000")
		t.put("f", "x")
		stats, err := t.box.StatMany(t.ctx, []string{"f", "d/f"})
		t.ok(err)
		t.ok(stats[0].Err)
		t.errno(stats[1].Err, "d/f", syscall.EACCES)
		reads, err := t.box.ReadFiles(t.ctx, []string{"d/f", "f"}, 0)
		t.ok(err)
		t.errno(reads[0].Err, "d/f", syscall.EACCES)
		t.ok(reads[1].Err)
		errs, err := t.box.WriteFiles(t.ctx, []sandbox.File{{Name: "d/f"}, {Name: "g"}})
		t.ok(err)
		t.errno(errs[0], "d/f", syscall.EACCES)
		t.ok(errs[1])
	}},
	{Name: "ReadTree reads what it may and tells the rest at the end", Needs: Denied, run: func(t *trial) {
		t.sh(`mkdir -p top/d top/e && echo x > top/a && echo x > top/secret && echo x > top/d/f && echo y > top/e/g && chmod 0 top/secret top/d`)
		t.afterwards(`chmod -R u+rwx top`)
		var b bytes.Buffer
		failed := treeErrors(t, t.box.ReadTree(t.ctx, "top", &b, sandbox.TreeOptions{}))
		if len(failed) != 2 || !errors.Is(failed[0], syscall.EACCES) || !errors.Is(failed[1], syscall.EACCES) {
			t.Errorf("got failures %v, want two with EACCES", failed)
		}
		got := entriesOf(t, b.Bytes())
		for _, name := range []string{"a", "e", "e/g"} {
			if got[name] == "" {
				t.Errorf("the archive lacks %s", name)
			}
		}
		if strings.HasPrefix(got["d/f"], "0") {
			t.Errorf("the archive has what may not be read")
		}
	}},
	{Name: "WriteTree makes what it may and tells the rest", Needs: Denied, run: func(t *trial) {
		t.sh(`mkdir -p top/ro && chmod 0500 top/ro`)
		t.afterwards(`chmod -R u+rwx top`)
		err := t.box.WriteTree(t.ctx, "top", bytes.NewReader(archive(t, file("ro/f", "x"), file("g", "y"))), sandbox.TreeOptions{})
		failed := treeErrors(t, err)
		if len(failed) != 1 || !errors.Is(failed[0], syscall.EACCES) {
			t.Errorf("got failures %v, want one with EACCES", failed)
		}
		t.holds("top/g", "y")
	}},
	{Name: "a working directory that may not be entered is 125", Needs: Denied, run: func(t *trial) {
		closed(t, "0600")
		startFails(t, sandbox.Command{Argv: []string{"true"}, Dir: "d"}, 125)
	}},
	{Name: "a program that may not be executed is 126", Needs: Denied, run: func(t *trial) {
		t.sh(`printf '#!/bin/sh\n' > prog && chmod 0644 prog`)
		startFails(t, sandbox.Command{Argv: []string{"./prog"}}, 126)
		startFails(t, sandbox.Command{Argv: []string{"prog"}, Env: []string{"PATH=" + t.box.Dir()}}, 126)
	}},
}

// closed makes a directory d with a file f, and takes permissions from it until the case is over.
func closed(t *trial, mode string) {
	t.Helper()
	t.sh(`mkdir d && echo x > d/f && chmod "$1" d`, mode)
	t.afterwards(`chmod 0700 d`)
}
