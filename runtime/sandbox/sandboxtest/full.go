package sandboxtest

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var fullCases = []Case{
	{Name: "WriteFile on a full disk is ENOSPC, the old content stays, no other file is left", Needs: Full, run: func(t *trial) {
		t.put("f", "old")
		t.mkdir("d")
		fill(t)
		before := t.list(".")
		for _, name := range []string{"f", "new", "d/new"} {
			t.errno(t.box.WriteFile(t.ctx, name, bytes.Repeat([]byte("new"), 100_000), sandbox.WriteOptions{}), name, syscall.ENOSPC)
		}
		t.holds("f", "old")
		t.same("what is left", t.list("."), before)
		t.same("what is left in d", t.list("d"), []string{})
	}},
	{Name: "WriteFiles on a full disk tells it of each", Needs: Full, run: func(t *trial) {
		t.put("f", "old")
		fill(t)
		content := bytes.Repeat([]byte("new"), 100_000)
		errs, err := t.box.WriteFiles(t.ctx, []sandbox.File{{Name: "f", Content: content}, {Name: "g", Content: content}})
		t.ok(err)
		t.errno(errs[0], "f", syscall.ENOSPC)
		t.errno(errs[1], "g", syscall.ENOSPC)
		t.holds("f", "old")
	}},
	{Name: "WriteTree on a full disk tells what it could not make", Needs: Full, run: func(t *trial) {
		t.put("d/f", "old")
		fill(t)
		err := t.box.WriteTree(t.ctx, "d", bytes.NewReader(archive(t, file("f", strings.Repeat("new", 100_000)))), sandbox.TreeOptions{})
		t.is(err, syscall.ENOSPC)
		treeErrors(t, err)
	}},
	{Name: "commands run on a full disk, and their codes arrive", Needs: Full, run: func(t *trial) {
		fill(t)
		for _, code := range []int{0, 1, 77} {
			r := t.exec(shell(`exit "$1"`, fmt.Sprint(code)))
			t.same("code", r.Code, code)
			t.same("cause", r.Cause, sandbox.CauseExited)
		}
		r := t.exec(shell(`head -c 300000 /dev/zero > more; echo "code $?" >&2`))
		t.same("what a command sees of it", strings.HasSuffix(string(r.Stderr), "code 1\n"), true)
	}},
	{Name: "reading and removing work on a full disk, and make room", Needs: Full, run: func(t *trial) {
		t.put("f", "old")
		fill(t)
		t.holds("f", "old")
		t.same("size", t.stat("f").Size, int64(3))
		t.ok(t.box.Remove(t.ctx, "filler", plainly))
		t.put("f", strings.Repeat("new", 100_000))
		t.holds("f", strings.Repeat("new", 100_000))
	}},
}

// fill leaves no room for 64 KiB.
func fill(t *trial) {
	t.Helper()
	r := t.exec(shell(`dd if=/dev/zero of=filler bs=65536 count=2000 2>/dev/null`))
	if r.Code == 0 {
		t.Fatalf("the fixture %s holds more than 125 MiB: it is no small file system", Full)
	}
}
