package sandboxtest

import (
	"io/fs"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var mkdirCases = []Case{
	{Name: "a directory is made with 0755, or the mode asked, whatever the umask", run: func(t *trial) {
		t.ok(t.box.Mkdir(t.ctx, "d", sandbox.MkdirOptions{}))
		t.same("mode", t.stat("d").Mode, fs.ModeDir|0o755)
		t.ok(t.box.Mkdir(t.ctx, "o", sandbox.MkdirOptions{Mode: 0o777}))
		t.same("mode", t.stat("o").Mode, fs.ModeDir|0o777)
		t.ok(t.box.Mkdir(t.ctx, "p/q/r", sandbox.MkdirOptions{Parents: true, Mode: 0o700}))
		t.same("mode of the last", t.stat("p/q/r").Mode, fs.ModeDir|0o700)
		t.same("mode on the way", t.stat("p/q").Mode, fs.ModeDir|0o755)
	}},
	{Name: "without Parents a directory that is there is EEXIST", run: func(t *trial) {
		t.sh(`mkdir d && touch f && ln -s nowhere l && ln -s d ld`)
		for _, name := range []string{"d", "f", "l", "ld", "."} {
			err := t.box.Mkdir(t.ctx, name, sandbox.MkdirOptions{})
			t.errno(err, name, syscall.EEXIST)
			t.is(err, fs.ErrExist)
		}
	}},
	{Name: "without Parents a missing parent is ENOENT", run: func(t *trial) {
		t.errno(t.box.Mkdir(t.ctx, "a/b", sandbox.MkdirOptions{}), "a/b", syscall.ENOENT)
		t.there("a", false)
	}},
	{Name: "with Parents a directory that is there is fine and left as it is", run: func(t *trial) {
		t.sh(`mkdir d && chmod 0711 d && touch d/f && ln -s d l`)
		for _, name := range []string{"d", "l", ".", "/"} {
			t.ok(t.box.Mkdir(t.ctx, name, sandbox.MkdirOptions{Parents: true, Mode: 0o700}))
		}
		t.same("mode", t.stat("d").Mode, fs.ModeDir|0o711)
		t.same("what is in it", t.list("d"), []string{"f"})
		t.ok(t.box.Mkdir(t.ctx, "d/e/f", sandbox.MkdirOptions{Parents: true}))
	}},
	{Name: "a file in the place of the directory is EEXIST, with Parents too", run: func(t *trial) {
		t.sh(`touch f && ln -s nowhere l`)
		for _, name := range []string{"f", "l"} {
			t.errno(t.box.Mkdir(t.ctx, name, sandbox.MkdirOptions{Parents: true}), name, syscall.EEXIST)
		}
	}},
	{Name: "a parent that is a file is ENOTDIR", run: func(t *trial) {
		t.put("f", "x")
		t.errno(t.box.Mkdir(t.ctx, "f/d", sandbox.MkdirOptions{}), "f/d", syscall.ENOTDIR)
		t.errno(t.box.Mkdir(t.ctx, "f/d", sandbox.MkdirOptions{Parents: true}), "f/d", syscall.ENOTDIR)
		t.errno(t.box.Mkdir(t.ctx, "f/d/e", sandbox.MkdirOptions{Parents: true}), "f/d/e", syscall.ENOTDIR)
		t.holds("f", "x")
	}},
	{Name: "a link to a directory is a parent", run: func(t *trial) {
		t.sh(`mkdir d && ln -s d l`)
		t.ok(t.box.Mkdir(t.ctx, "l/a/b", sandbox.MkdirOptions{Parents: true}))
		t.same("what is in the directory", t.list("d/a"), []string{"b"})
	}},
}
