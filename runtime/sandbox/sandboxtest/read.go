package sandboxtest

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var readCases = []Case{
	{Name: "a file of 0 bytes is read as nothing", run: func(t *trial) {
		t.put("f", "")
		t.holds("f", "")
		t.same("size", t.stat("f").Size, int64(0))
	}},
	{Name: "all 256 bytes come back", run: func(t *trial) {
		t.put("f", allBytes())
		t.holds("f", allBytes())
		t.same("what a command sees", t.sh(`cat f`), allBytes())
	}},
	{Name: "a file without a newline at its end has none", run: func(t *trial) {
		t.sh(`printf 'a\nb' > f && printf '\n\n' > g`)
		t.holds("f", "a\nb")
		t.holds("g", "\n\n")
	}},
	{Name: "100 MiB go there and back, by parts", run: hundredMiB},
	{Name: "a part is the bytes from an offset", run: readParts},
	{Name: "a negative offset or limit is EINVAL", run: func(t *trial) {
		t.put("f", "x")
		for _, part := range []sandbox.Part{{Offset: -1}, {Limit: -1}} {
			_, err := t.box.ReadFile(t.ctx, "f", part)
			t.errno(err, "f", syscall.EINVAL)
		}
	}},
	{Name: "a rest of more than MaxRead is EFBIG, a part of it is not", run: func(t *trial) {
		t.sh(`dd if=/dev/zero of=big bs=1 count=0 seek=268435460 2>/dev/null`)
		_, err := t.box.ReadFile(t.ctx, "big", sandbox.Part{})
		t.errno(err, "big", syscall.EFBIG)
		content, err := t.box.ReadFile(t.ctx, "big", sandbox.Part{Offset: 268435457})
		t.ok(err)
		t.same("the rest", content, []byte{0, 0, 0})
		content, err = t.box.ReadFile(t.ctx, "big", sandbox.Part{Limit: 10})
		t.ok(err)
		t.same("the beginning", len(content), 10)
	}},
	{Name: "a file without a size is read to its end", run: func(t *trial) {
		// /proc tells sizes of 0.
		if got := t.get("/proc/self/cmdline"); got == "" {
			t.Errorf("/proc/self/cmdline was read as empty")
		}
	}},
	{Name: "a link is read through", run: func(t *trial) {
		t.sh(`mkdir d && printf content > d/f && ln -s d/f l && ln -s l ll && ln -s d dl`)
		for _, name := range []string{"l", "ll", "dl/f"} {
			t.holds(name, "content")
		}
	}},
	{Name: "a link without a target is ENOENT, a loop ELOOP", run: func(t *trial) {
		t.sh(`ln -s nowhere dangling && ln -s loop loop`)
		for name, want := range map[string]syscall.Errno{"dangling": syscall.ENOENT, "loop": syscall.ELOOP} {
			_, err := t.box.ReadFile(t.ctx, name, sandbox.Part{})
			t.errno(err, name, want)
		}
	}},
	{Name: "what is missing is ENOENT, a parent that is a file ENOTDIR", run: func(t *trial) {
		t.put("f", "x")
		for name, want := range map[string]syscall.Errno{"missing": syscall.ENOENT, "no/f": syscall.ENOENT, "f/x": syscall.ENOTDIR} {
			_, err := t.box.ReadFile(t.ctx, name, sandbox.Part{})
			t.errno(err, name, want)
		}
		_, err := t.box.ReadFile(t.ctx, "missing", sandbox.Part{})
		t.is(err, fs.ErrNotExist)
	}},
	{Name: "a directory is EISDIR, through a link too", run: func(t *trial) {
		t.sh(`mkdir d && ln -s d l`)
		for _, name := range []string{"d", "l", "."} {
			_, err := t.box.ReadFile(t.ctx, name, sandbox.Part{})
			t.errno(err, name, syscall.EISDIR)
		}
	}},
	{Name: "a fifo and a device are EINVAL and never waited for", run: func(t *trial) {
		t.fifo("p")
		t.sh(`ln -s p l`)
		for _, name := range []string{"p", "l", "/dev/zero"} {
			_, err := t.box.ReadFile(t.ctx, name, sandbox.Part{})
			t.errno(err, name, syscall.EINVAL)
			_, err = t.box.ReadFile(t.ctx, name, sandbox.Part{Limit: 1})
			t.errno(err, name, syscall.EINVAL)
		}
	}},
}

func allBytes() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

func readParts(t *trial) {
	content := numbered(300_000)
	t.put("f", content)
	for _, c := range []struct{ offset, limit int64 }{
		{0, 1}, {0, 300_000}, {0, 300_001}, {1, 0}, {299_999, 0}, {299_999, 1}, {300_000, 0}, {300_000, 5}, {400_000, 0}, {65_535, 3}, {131_071, 100_000}, {12_345, 1 << 40},
	} {
		got, err := t.box.ReadFile(t.ctx, "f", sandbox.Part{Offset: c.offset, Limit: c.limit})
		t.ok(err)
		want := content[min(c.offset, 300_000):]
		if c.limit > 0 {
			want = want[:min(c.limit, int64(len(want)))]
		}
		if string(got) != want {
			t.Errorf("offset %d, limit %d: got %s, want %s", c.offset, c.limit, short(got), short([]byte(want)))
		}
	}
}

func hundredMiB(t *trial) {
	const size = 100 << 20
	block := sha256.Sum256([]byte("seed"))
	content := make([]byte, 0, size)
	for len(content) < size {
		block = sha256.Sum256(block[:])
		for range 64 {
			content = append(content, block[:]...)
			block[0]++
		}
	}
	content = content[:size]
	want := sha256.Sum256(content)
	t.ok(t.box.WriteFile(t.ctx, "big", content, sandbox.WriteOptions{}))
	told, _, _ := strings.Cut(t.sh(`sha256sum big`), " ")
	t.same("the hash that the computer tells", told, hex.EncodeToString(want[:]))
	h := sha256.New()
	const part = 32 << 20
	for at := int64(0); at < size; at += part {
		piece, err := t.box.ReadFile(t.ctx, "big", sandbox.Part{Offset: at, Limit: part})
		t.ok(err)
		h.Write(piece)
	}
	t.same("the hash of what was read", h.Sum(nil), want[:])
}
