package sandboxtest

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

var readdirCases = []Case{
	{Name: "an empty directory has no entries", run: func(t *trial) { t.same("the listing", t.list("."), []string{}) }},
	{Name: "a listing is sorted by bytes, without . and ..", run: func(t *trial) {
		t.sh(`touch b B a Z 10 9 .h _ é`)
		t.same("the listing", t.list("."), []string{".h", "10", "9", "B", "Z", "_", "a", "b", "é"})
	}},
	{Name: "entries tell type, size and mode", run: func(t *trial) {
		t.sh(`mkdir d && chmod 0700 d && printf 12345 > f && chmod 0600 f && mkfifo p`)
		infos, err := t.box.ReadDir(t.ctx, ".")
		t.ok(err)
		got := []string{}
		for _, i := range infos {
			got = append(got, fmt.Sprint(i.Name, " ", i.Mode.Type(), " ", strconv.FormatUint(uint64(i.Mode.Perm()), 8), " ", i.Size))
		}
		t.same("the entries", got[:2], []string{"d d--------- 700 0", "f ---------- 600 5"})
		t.same("the type of the fifo", infos[2].Mode.Type(), fs.ModeNamedPipe)
		t.same("the entry and Stat", infos[1], t.stat("f"))
	}},
	{Name: "links in a listing are not followed", run: func(t *trial) {
		t.sh(`mkdir d && ln -s d dir && ln -s nowhere dangling && ln -s loop loop && ln -s /etc/passwd file`)
		infos, err := t.box.ReadDir(t.ctx, ".")
		t.ok(err)
		for _, i := range infos[1:] {
			t.same(i.Name+" is a link", i.IsSymlink, i.Name != "d")
			t.same("type of "+i.Name, i.Mode.Type() == fs.ModeSymlink, i.Name != "d")
			t.same("size of "+i.Name, i.Size, int64(0))
		}
		t.same("the names", t.list("."), []string{"d", "dangling", "dir", "file", "loop"})
	}},
	{Name: "a link to a directory is listed as the directory", run: func(t *trial) {
		t.sh(`mkdir d && touch d/x && ln -s d l`)
		t.same("the listing", t.list("l"), []string{"x"})
	}},
	{Name: "a file is ENOTDIR, and so is whatever else is no directory", run: func(t *trial) {
		t.sh(`touch f && mkfifo p && ln -s f l`)
		for _, name := range []string{"f", "p", "l", "f/x"} {
			_, err := t.box.ReadDir(t.ctx, name)
			t.errno(err, name, syscall.ENOTDIR)
		}
	}},
	{Name: "what is missing is ENOENT, a loop ELOOP", run: func(t *trial) {
		t.sh(`ln -s nowhere dangling && ln -s loop loop`)
		for name, want := range map[string]syscall.Errno{"missing": syscall.ENOENT, "dangling": syscall.ENOENT, "loop": syscall.ELOOP} {
			_, err := t.box.ReadDir(t.ctx, name)
			t.errno(err, name, want)
		}
	}},
	{Name: "a directory of 4000 entries is listed whole", run: func(t *trial) {
		t.sh(`mkdir d && cd d && seq 1000 4999 | sed 's/^/name-/' | xargs touch`)
		got := t.list("d")
		t.same("the number", len(got), 4000)
		t.same("the order", slices.IsSorted(got), true)
		t.same("the ends", []string{got[0], got[3999]}, []string{"name-1000", "name-4999"})
	}},
	{Name: "an entry that vanishes while listing is left out", run: vanishing},
}

func vanishing(t *trial) {
	t.sh(`mkdir d && touch d/stays`)
	t.fifo("stop")
	// The loop ends when it may read from the fifo: cat in the background holds its place until then.
	p := t.start(shell(`cat stop > /dev/null & w=$!
		while kill -0 $w 2>/dev/null; do touch d/a d/b d/c d/e; rm d/a d/b d/c d/e; done`))
	for range 50 {
		got := t.list("d")
		for _, name := range got {
			if !strings.Contains("a b c e stays", name) {
				t.Fatalf("a listing has %q", got)
			}
		}
		if !slices.Contains(got, "stays") {
			t.Fatalf("a listing lacks what never moved: %q", got)
		}
	}
	t.release("stop")
	t.same("the exit code", t.follow(p, offsets0).exit.Code, 0)
}
