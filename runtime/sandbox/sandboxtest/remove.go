package sandboxtest

import (
	"io/fs"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var (
	plainly   = sandbox.RemoveOptions{}
	forced    = sandbox.RemoveOptions{Force: true}
	recursive = sandbox.RemoveOptions{Recursive: true}
	allOfIt   = sandbox.RemoveOptions{Recursive: true, Force: true}
)

var removeCases = []Case{
	{Name: "a file, a fifo and an empty directory go", run: func(t *trial) {
		t.sh(`touch f && chmod 0 f && mkfifo p && mkdir d`)
		for _, name := range []string{"f", "p", "d"} {
			t.ok(t.box.Remove(t.ctx, name, plainly))
		}
		t.same("what is left", t.list("."), []string{})
	}},
	{Name: "a link goes and its target stays", run: func(t *trial) {
		t.sh(`mkdir d && touch d/x f && ln -s d dl && ln -s f fl && ln -s nowhere nl && ln -s loop loop`)
		for _, o := range []sandbox.RemoveOptions{plainly, allOfIt} {
			for _, name := range []string{"dl", "fl", "nl", "loop"} {
				t.ok(t.box.Remove(t.ctx, name, o))
			}
			t.same("what is left", t.list("."), []string{"d", "f"})
			t.same("what is in the directory", t.list("d"), []string{"x"})
			t.sh(`ln -s d dl && ln -s f fl && ln -s nowhere nl && ln -s loop loop`)
		}
	}},
	{Name: "without Recursive a directory that is not empty is ENOTEMPTY", run: func(t *trial) {
		t.put("d/f", "x")
		t.errno(t.box.Remove(t.ctx, "d", plainly), "d", syscall.ENOTEMPTY)
		t.errno(t.box.Remove(t.ctx, "d", forced), "d", syscall.ENOTEMPTY)
		t.holds("d/f", "x")
	}},
	{Name: "Recursive removes all below", run: func(t *trial) {
		t.sh(`mkdir -p d/e/f d/.g && touch d/x d/e/y d/e/f/z d/.g/w d/-rf "d/a b" && mkfifo d/p`)
		t.ok(t.box.Remove(t.ctx, "d", recursive))
		t.same("what is left", t.list("."), []string{})
	}},
	{Name: "Recursive follows no link and leaves nothing's directory", run: func(t *trial) {
		t.sh(`mkdir -p keep/deep d/e && touch keep/k keep/deep/k && ln -s ../keep d/l && ln -s ../../keep d/e/l && ln -s "$PWD/keep" d/a && ln -s .. d/up`)
		t.ok(t.box.Remove(t.ctx, "d", allOfIt))
		t.same("what is left", t.list("."), []string{"keep"})
		t.same("what is kept", t.list("keep"), []string{"deep", "k"})
		t.same("what is kept below", t.list("keep/deep"), []string{"k"})
	}},
	{Name: "Recursive with a link's name and a slash takes nothing from its target", run: func(t *trial) {
		t.sh(`mkdir keep && touch keep/k && ln -s keep l`)
		_ = t.box.Remove(t.ctx, "l/", allOfIt)
		t.same("what is kept", t.list("keep"), []string{"k"})
	}},
	{Name: "Recursive removes a file too", run: func(t *trial) {
		t.put("f", "x")
		t.ok(t.box.Remove(t.ctx, "f", recursive))
		t.there("f", false)
	}},
	{Name: "a deep tree goes", run: func(t *trial) {
		t.sh(`i=0; while [ $i -lt 150 ]; do mkdir dddddddddddddddddddd && cd dddddddddddddddddddd || exit 1; i=$((i+1)); done; touch f`)
		t.ok(t.box.Remove(t.ctx, "dddddddddddddddddddd", recursive))
		t.same("what is left", t.list("."), []string{})
	}},
	{Name: "what is missing is ENOENT, a parent that is a file ENOTDIR", run: func(t *trial) {
		t.put("f", "x")
		for _, o := range []sandbox.RemoveOptions{plainly, recursive} {
			for name, want := range map[string]syscall.Errno{"missing": syscall.ENOENT, "no/x": syscall.ENOENT, "f/x": syscall.ENOTDIR} {
				t.errno(t.box.Remove(t.ctx, name, o), name, want)
			}
		}
		t.is(t.box.Remove(t.ctx, "missing", plainly), fs.ErrNotExist)
	}},
	{Name: "Force makes absence fine", run: func(t *trial) {
		t.put("f", "x")
		for _, o := range []sandbox.RemoveOptions{forced, allOfIt} {
			for _, name := range []string{"missing", "no/x", "f/x"} {
				t.ok(t.box.Remove(t.ctx, name, o))
			}
		}
	}},
	{Name: "the root, Dir and what is above it are EBUSY", run: func(t *trial) {
		t.put("sub/deep/f", "x")
		box := t.box.In("sub/deep")
		for _, name := range []string{"/", "//", "/.", ".", "./", "..", "../", "../..", "../deep", "/..", box.Dir(), box.Dir() + "/", t.box.Dir(), t.box.Dir() + "/sub"} {
			for _, o := range []sandbox.RemoveOptions{plainly, allOfIt} {
				t.errno(box.Remove(t.ctx, name, o), name, syscall.EBUSY)
			}
		}
		t.holds("sub/deep/f", "x")
		t.ok(t.box.Remove(t.ctx, "sub", recursive))
	}},
	{Name: "one name of a file goes and the others stay", run: func(t *trial) {
		t.sh(`echo x > f && ln f g`)
		t.ok(t.box.Remove(t.ctx, "f", plainly))
		t.holds("g", "x\n")
	}},
}
