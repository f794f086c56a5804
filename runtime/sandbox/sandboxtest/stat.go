package sandboxtest

import (
	"io/fs"
	"syscall"
	"time"
)

var statCases = []Case{
	{Name: "a file has size, permissions, time, owner and number of names", run: statFile},
	{Name: "a directory is told, with size 0", run: func(t *trial) {
		t.sh(`mkdir d && chmod 0750 d`)
		info := t.stat("d")
		t.same("mode", info.Mode, fs.ModeDir|0o750)
		t.same("size", info.Size, int64(0))
		t.same("IsDir", info.IsDir(), true)
	}},
	{Name: "a link is followed and told", run: func(t *trial) {
		t.put("f", "12345")
		t.sh(`ln -s f l && ln -s l ll`)
		for _, name := range []string{"l", "ll"} {
			info := t.stat(name)
			t.same("name", info.Name, name)
			t.same("size of the target", info.Size, int64(5))
			t.same("mode of the target", info.Mode, fs.FileMode(0o644))
			t.same("IsSymlink", info.IsSymlink, true)
		}
		t.same("IsSymlink of a file", t.stat("f").IsSymlink, false)
	}},
	{Name: "a link to a directory is a directory and a link", run: func(t *trial) {
		t.sh(`mkdir d && ln -s d l`)
		info := t.stat("l")
		t.same("IsDir", info.IsDir(), true)
		t.same("IsSymlink", info.IsSymlink, true)
	}},
	{Name: "a link without a target is described, not an error", run: func(t *trial) {
		t.sh(`ln -s nowhere l && ln -s l ll && touch f && ln -s f/x lf`)
		for _, name := range []string{"l", "ll", "lf"} {
			info := t.stat(name)
			t.same("type", info.Mode.Type(), fs.ModeSymlink)
			t.same("IsSymlink", info.IsSymlink, true)
			t.same("size", info.Size, int64(0))
		}
	}},
	{Name: "a loop of links is ELOOP", run: func(t *trial) {
		t.sh(`ln -s b a && ln -s a b && ln -s self self`)
		for _, name := range []string{"a", "b", "self", "self/x"} {
			_, err := t.box.Stat(t.ctx, name)
			t.errno(err, name, syscall.ELOOP)
		}
	}},
	{Name: "a fifo is told and not opened", run: func(t *trial) {
		t.fifo("p")
		t.same("type", t.stat("p").Mode.Type(), fs.ModeNamedPipe)
		t.same("size", t.stat("p").Size, int64(0))
	}},
	{Name: "a device is told", run: func(t *trial) {
		t.same("type", t.stat("/dev/null").Mode.Type(), fs.ModeDevice|fs.ModeCharDevice)
	}},
	{Name: "setuid, setgid and sticky bits are told", run: func(t *trial) {
		t.sh(`touch u && chmod 4755 u && mkdir s && chmod 1777 s`)
		t.same("mode of a setuid file", t.stat("u").Mode, fs.ModeSetuid|0o755)
		t.same("mode of a sticky directory", t.stat("s").Mode, fs.ModeDir|fs.ModeSticky|0o777)
	}},
	{Name: "a size beyond 32 bits is whole", run: func(t *trial) {
		t.sh(`dd if=/dev/zero of=big bs=1 count=0 seek=5000000000 2>/dev/null`)
		t.same("size", t.stat("big").Size, int64(5000000000))
	}},
	{Name: "what is missing is ENOENT", run: func(t *trial) {
		for _, name := range []string{"missing", "missing/x"} {
			_, err := t.box.Stat(t.ctx, name)
			t.errno(err, name, syscall.ENOENT)
			t.is(err, fs.ErrNotExist)
		}
	}},
	{Name: "a parent that is a file is ENOTDIR", run: func(t *trial) {
		t.put("f", "x")
		for _, name := range []string{"f/x", "f/"} {
			_, err := t.box.Stat(t.ctx, name)
			t.errno(err, name, syscall.ENOTDIR)
		}
	}},
	{Name: "Exists is true for whatever is there, a link without a target included", run: func(t *trial) {
		t.sh(`touch f && mkdir d && ln -s f l && ln -s nowhere dangling && ln -s loop loop && mkfifo p`)
		for _, name := range []string{"f", "d", "l", "dangling", "loop", "p", ".", "/"} {
			t.there(name, true)
		}
	}},
	{Name: "absence is never an error of Exists", run: func(t *trial) {
		t.sh(`touch f && ln -s loop loop && ln -s nowhere dangling`)
		for _, name := range []string{"missing", "missing/x", "f/x", "loop/x", "dangling/x"} {
			t.there(name, false)
		}
	}},
}

func statFile(t *trial) {
	t.put("f", "12345")
	t.sh(`chmod 0640 f && ln f g && touch -d '2021-03-04 05:06:07' f`)
	info := t.stat("f")
	t.same("name", info.Name, "f")
	t.same("size", info.Size, int64(5))
	t.same("mode", info.Mode, fs.FileMode(0o640))
	t.same("IsSymlink", info.IsSymlink, false)
	t.same("IsDir", info.IsDir(), false)
	t.same("links", info.Links, 2)
	t.same("time", info.Modified.Unix(), unixOf(t, "f"))
	t.same("precision of the time", info.Modified.Truncate(time.Second).Equal(info.Modified), true)
	t.same("owner", []int{info.UID, info.GID}, ownerOf(t, "f"))
}
