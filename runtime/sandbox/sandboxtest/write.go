package sandboxtest

import (
	"bytes"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var writeCases = []Case{
	{Name: "a new file has 0644, whatever the umask", run: func(t *trial) {
		t.put("f", "x")
		t.same("mode", t.stat("f").Mode, fs.FileMode(0o644))
	}},
	{Name: "parents are made, with 0755", run: func(t *trial) {
		t.put("a/b/c/f", "x")
		t.holds("a/b/c/f", "x")
		for _, dir := range []string{"a", "a/b", "a/b/c"} {
			t.same("mode of "+dir, t.stat(dir).Mode, fs.ModeDir|0o755)
		}
	}},
	{Name: "the mode is as asked", run: func(t *trial) {
		for _, mode := range []fs.FileMode{0o600, 0o755, 0o777, 0o400, 0o002} {
			t.ok(t.box.WriteFile(t.ctx, "f", []byte("x"), sandbox.WriteOptions{Mode: mode}))
			t.same("mode", t.stat("f").Mode, mode)
		}
	}},
	{Name: "an existing file keeps its mode", run: func(t *trial) {
		for _, mode := range []string{"0600", "0755", "0640", "0444", "0222"} {
			t.sh(`rm -f f && echo old > f && chmod "$1" f`, mode)
			want := t.stat("f").Mode
			t.put("f", "new")
			t.same("mode after "+mode, t.stat("f").Mode, want)
		}
	}},
	{Name: "setuid and setgid bits go with the old content", run: func(t *trial) {
		t.sh(`echo old > f && chmod 6755 f`)
		t.put("f", "new")
		t.same("mode", t.stat("f").Mode, fs.FileMode(0o755))
		t.ok(t.box.WriteFile(t.ctx, "g", nil, sandbox.WriteOptions{Mode: fs.ModeSetuid | 0o755}))
		t.same("mode of a new one", t.stat("g").Mode, fs.FileMode(0o755))
	}},
	{Name: "whoever has the old file open keeps the old content", run: oldFileStays},
	{Name: "a reader sees the old content or the new one, whole", run: readersSeeWholes},
	{Name: "another name of the old file keeps the old content", run: func(t *trial) {
		t.sh(`echo old > f && ln f g`)
		t.put("f", "new")
		t.holds("g", "old\n")
	}},
	{Name: "shorter content leaves nothing of the longer", run: func(t *trial) {
		t.put("f", strings.Repeat("long", 1000))
		t.put("f", "short")
		t.holds("f", "short")
	}},
	{Name: "no other file is left behind", run: func(t *trial) {
		for range 5 {
			t.put("f", "x")
		}
		t.put("d/g", "x")
		t.same("the directory", t.list("."), []string{"d", "f"})
		t.same("the other", t.list("d"), []string{"g"})
	}},
	{Name: "a link is followed: its target is replaced and it stays", run: func(t *trial) {
		t.sh(`mkdir d && echo old > d/f && chmod 0600 d/f && ln -s d/f l && ln -s l ll && ln -s "$PWD/d/f" abs`)
		for _, name := range []string{"l", "ll", "abs"} {
			t.put(name, "by "+name)
			t.holds("d/f", "by "+name)
			t.same("mode of the target", t.stat("d/f").Mode, fs.FileMode(0o600))
			t.same(name+" is a link", t.stat(name).IsSymlink, true)
		}
		t.same("the directory", t.list("d"), []string{"f"})
	}},
	{Name: "a link without a target gets one", run: func(t *trial) {
		t.sh(`mkdir d && ln -s d/new l && ln -s gone g`)
		t.put("l", "x")
		t.put("g", "y")
		t.holds("d/new", "x")
		t.holds("gone", "y")
		t.same("l is a link", t.stat("l").IsSymlink, true)
	}},
	{Name: "a loop of links is ELOOP", run: func(t *trial) {
		t.sh(`ln -s b a && ln -s a b`)
		t.errno(t.box.WriteFile(t.ctx, "a", nil, sandbox.WriteOptions{}), "a", syscall.ELOOP)
		t.same("what is left", t.list("."), []string{"a", "b"})
	}},
	{Name: "a directory is EISDIR, through a link too", run: func(t *trial) {
		t.sh(`mkdir d && ln -s d l`)
		for _, name := range []string{"d", "l", "."} {
			t.errno(t.box.WriteFile(t.ctx, name, []byte("x"), sandbox.WriteOptions{}), name, syscall.EISDIR)
		}
		t.same("what is left", t.list("."), []string{"d", "l"})
		t.same("what is in it", t.list("d"), []string{})
	}},
	{Name: "a parent that is a file is ENOTDIR", run: func(t *trial) {
		t.put("f", "x")
		for _, name := range []string{"f/x", "f/d/x"} {
			t.errno(t.box.WriteFile(t.ctx, name, []byte("x"), sandbox.WriteOptions{}), name, syscall.ENOTDIR)
		}
		t.holds("f", "x")
	}},
	{Name: "a fifo and a device are EINVAL and stay", run: func(t *trial) {
		t.fifo("p")
		t.sh(`ln -s p l`)
		for _, name := range []string{"p", "l", "/dev/null"} {
			t.errno(t.box.WriteFile(t.ctx, name, []byte("x"), sandbox.WriteOptions{}), name, syscall.EINVAL)
		}
		t.same("type", t.stat("p").Mode.Type(), fs.ModeNamedPipe)
	}},
	{Name: "more than MaxWrite is EFBIG", run: func(t *trial) {
		t.put("f", "old")
		t.errno(t.box.WriteFile(t.ctx, "f", make([]byte, sandbox.MaxWrite+1), sandbox.WriteOptions{}), "f", syscall.EFBIG)
		t.holds("f", "old")
	}},
	{Name: "an error does not hold the content", run: func(t *trial) {
		t.mkdir("d")
		err := t.box.WriteFile(t.ctx, "d", []byte("s3cr3t content"), sandbox.WriteOptions{})
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("got error %v", err)
		}
	}},
}

func oldFileStays(t *trial) {
	t.put("f", "the old content")
	t.fifo("opened")
	t.fifo("go")
	p := t.start(shell(`exec 3< f; echo opened; cat go; cat <&3`))
	opened := make(chan struct{})
	done := make(chan followed, 1)
	go func() {
		var f followed
		once := sync.OnceFunc(func() { close(opened) })
		_, _ = p.Follow(t.ctx, sandbox.Offsets{}, func(o sandbox.Output) error {
			f.stdout = append(f.stdout, o.Data...)
			once()
			return nil
		})
		done <- f
	}()
	await(t, "the reader to open the file", opened)
	t.put("f", "new")
	t.release("go")
	t.same("what the reader has", string(await(t, "the reader", done).stdout), "opened\ngo\nthe old content")
}

func readersSeeWholes(t *trial) {
	contents := [][]byte{bytes.Repeat([]byte("old "), 100_000), bytes.Repeat([]byte("new"), 50_000)}
	t.put("f", string(contents[0]))
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := t.box.WriteFile(t.ctx, "f", contents[i%2], sandbox.WriteOptions{}); err != nil {
				t.Errorf("write: %v", err)
				return
			}
		}
	})
	for range 40 {
		got, err := t.box.ReadFile(t.ctx, "f", sandbox.Part{})
		if err != nil || !slices.ContainsFunc(contents, func(c []byte) bool { return bytes.Equal(c, got) }) {
			t.Errorf("a reader got %s, error %v", short(got), err)
			break
		}
	}
	close(stop)
	writer.Wait()
}
