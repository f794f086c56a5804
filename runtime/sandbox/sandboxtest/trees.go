package sandboxtest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var treeCases = []Case{
	{Name: "a tree goes there and back with every odd name", run: roundTrip},
	{Name: "an archive tells mode, time and numeric owner", run: func(t *trial) {
		t.sh(`mkdir d && echo x > d/f && chmod 4711 d/f && touch -d '2021-03-04 05:06:07' d/f`)
		owner, seconds := ownerOf(t, "d/f"), unixOf(t, "d/f")
		r := tar.NewReader(bytes.NewReader(t.tree("d")))
		for {
			h, err := r.Next()
			t.ok(err)
			if strings.TrimPrefix(h.Name, "./") != "f" {
				continue
			}
			t.same("mode", h.Mode&0o7777, int64(0o4711))
			t.same("owner", []int{h.Uid, h.Gid}, owner)
			t.same("time", h.ModTime.Unix(), seconds)
			return
		}
	}},
	{Name: "names are relative to the tree, and . is the tree itself", run: func(t *trial) {
		t.put("a/b/c/f", "x")
		got := entriesOf(t, t.tree("a/b"))
		t.same("the names", fmt.Sprint(keysOf(got)), fmt.Sprint([]string{".", "c", "c/f"}))
	}},
	{Name: "one file is one entry with its own name", run: func(t *trial) {
		t.put("d/it's one", "content")
		got := entriesOf(t, t.tree("d/it's one"))
		t.same("the names", keysOf(got), []string{"it's one"})
	}},
	{Name: "links below a tree are links, the tree's own name is followed", run: func(t *trial) {
		t.sh(`mkdir d && echo x > d/f && ln -s f d/l && ln -s /etc d/abs && ln -s nowhere d/n && ln -s d link`)
		got := entriesOf(t, t.tree("link"))
		t.same("the names", keysOf(got), []string{".", "abs", "f", "l", "n"})
		for name, target := range map[string]string{"l": "f", "abs": "/etc", "n": "nowhere"} {
			t.same(name, got[name], "2  "+target)
		}
	}},
	{Name: "an empty directory is an archive", run: func(t *trial) {
		t.mkdir("d")
		t.same("the names", keysOf(entriesOf(t, t.tree("d"))), []string{"."})
	}},
	{Name: "a tree that is missing is ENOENT, a loop ELOOP", run: func(t *trial) {
		t.sh(`ln -s loop loop`)
		for name, want := range map[string]syscall.Errno{"missing": syscall.ENOENT, "loop": syscall.ELOOP} {
			t.errno(t.box.ReadTree(t.ctx, name, &bytes.Buffer{}, sandbox.TreeOptions{}), name, want)
		}
	}},
	{Name: "a file that changes meanwhile leaves a valid archive", run: changing},
	{Name: "an error of the writer ends ReadTree with it", run: func(t *trial) {
		t.sh(`mkdir d && head -c 3000000 /dev/zero > d/f`)
		why := errors.New("the writer has had enough")
		t.is(t.box.ReadTree(t.ctx, "d", failingWriter{why}, sandbox.TreeOptions{}), why)
	}},
	{Name: "a failing reader ends WriteTree with its error", run: func(t *trial) {
		why := errors.New("the reader has no more")
		b := archive(t, file("a", "x"), file("b", strings.Repeat("x", 100_000)))
		t.is(t.box.WriteTree(t.ctx, "d", &failingReader{bytes.NewReader(b[:len(b)/2]), why}, sandbox.TreeOptions{}), why)
	}},
	{Name: "an archive that is torn is an error", run: func(t *trial) {
		b := archive(t, file("a", strings.Repeat("x", 100_000)))
		if err := t.box.WriteTree(t.ctx, "d", bytes.NewReader(b[:50_000]), sandbox.TreeOptions{}); err == nil {
			t.Errorf("a torn archive was taken for a whole")
		}
		if err := t.box.WriteTree(t.ctx, "e", strings.NewReader(strings.Repeat("no archive ", 1000)), sandbox.TreeOptions{}); err == nil {
			t.Errorf("what is no archive was taken for one")
		}
	}},
	{Name: "WriteTree makes the directory, and its parents", run: func(t *trial) {
		t.ok(t.box.WriteTree(t.ctx, "a/b", bytes.NewReader(archive(t, file("c/d/f", "x"))), sandbox.TreeOptions{}))
		t.holds("a/b/c/d/f", "x")
		t.ok(t.box.WriteTree(t.ctx, "empty", bytes.NewReader(archive(t)), sandbox.TreeOptions{}))
		t.same("what is in it", t.list("empty"), []string{})
	}},
	{Name: "WriteTree into a file is ENOTDIR", run: func(t *trial) {
		t.put("f", "x")
		t.errno(t.box.WriteTree(t.ctx, "f", bytes.NewReader(archive(t)), sandbox.TreeOptions{}), "f", syscall.ENOTDIR, syscall.EEXIST)
		t.holds("f", "x")
	}},
	{Name: "existing files are replaced, not written into", run: func(t *trial) {
		t.sh(`mkdir d && echo old > d/f && ln d/f other && echo target > target && ln -s ../target d/l && mkfifo d/p`)
		t.ok(t.box.WriteTree(t.ctx, "d", bytes.NewReader(archive(t, file("f", "new"), file("l", "new"), file("p", "new"))), sandbox.TreeOptions{}))
		t.holds("d/f", "new")
		t.holds("other", "old\n")
		t.holds("target", "target\n")
		t.same("whether l is a link", t.stat("d/l").IsSymlink, false)
		t.holds("d/p", "new")
	}},
	{Name: "existing directories are kept with what they hold", run: func(t *trial) {
		t.put("d/sub/mine", "mine")
		t.ok(t.box.WriteTree(t.ctx, "d", bytes.NewReader(archive(t, directory("sub", 0o755), file("sub/f", "new"))), sandbox.TreeOptions{}))
		t.holds("d/sub/mine", "mine")
		t.holds("d/sub/f", "new")
	}},
	{Name: "modes are applied whatever the umask, setuid bits dropped", run: func(t *trial) {
		f, s, w := file("f", "x"), file("s", "x"), file("w", "x")
		f.Mode, s.Mode, w.Mode = 0o600, 0o6755, 0o666
		t.ok(t.box.WriteTree(t.ctx, "d", bytes.NewReader(archive(t, f, s, w, directory("dir", 0o750), file("dir/x", "x"))), sandbox.TreeOptions{}))
		for name, want := range map[string]fs.FileMode{"f": 0o600, "s": 0o755, "w": 0o666, "dir": fs.ModeDir | 0o750} {
			t.same("mode of "+name, t.stat("d/"+name).Mode, want)
		}
	}},
	{Name: "a directory that may not be written gets its entries first", run: func(t *trial) {
		t.ok(t.box.WriteTree(t.ctx, "d", bytes.NewReader(archive(t, directory("ro", 0o555), file("ro/f", "x"), directory("ro/sub", 0o500), file("ro/sub/g", "y"))), sandbox.TreeOptions{}))
		t.afterwards(`chmod -R u+w d`)
		t.holds("d/ro/f", "x")
		t.holds("d/ro/sub/g", "y")
		t.same("mode", t.stat("d/ro").Mode, fs.ModeDir|0o555)
	}},
	{Name: "a name with .. is refused", run: func(t *trial) {
		hostile(t, file("../outside", "evil"))
		hostile(t, file("a/../../outside", "evil"))
		hostile(t, directory("../outdir", 0o755))
		hostile(t, link("../outlink", "x"))
	}},
	{Name: "an absolute name is refused", run: func(t *trial) {
		hostile(t, file(t.box.Dir()+"/outside", "evil"))
		hostile(t, directory(t.box.Dir()+"/outdir", 0o755))
	}},
	{Name: "an entry through a link of the archive is refused", run: func(t *trial) {
		hostile(t, link("l", ".."), file("l/outside", "evil"))
		hostile(t, link("m", t.box.Dir()), file("m/outside", "evil"))
		hostile(t, link("n", ".."), directory("n/outdir", 0o755))
		hostile(t, directory("sub", 0o755), link("sub/up", "../.."), file("sub/up/outside", "evil"))
	}},
	{Name: "an entry through a link that was there is refused", run: func(t *trial) {
		t.sh(`mkdir -p in && ln -s .. in/old && ln -s "$PWD" in/abs`)
		hostile(t, file("old/outside", "evil"))
		hostile(t, file("abs/outside", "evil"))
	}},
	{Name: "a hard link to what lies outside is refused", run: func(t *trial) {
		hostile(t, other(tar.TypeLink, "h", "../secret"))
		hostile(t, other(tar.TypeLink, "h", t.box.Dir()+"/secret"))
		hostile(t, link("l", ".."), other(tar.TypeLink, "h", "l/secret"))
	}},
	{Name: "a hard link inside is the file", run: func(t *trial) {
		t.ok(t.box.WriteTree(t.ctx, "d", bytes.NewReader(archive(t, file("f", "content"), other(tar.TypeLink, "sub/h", "f"))), sandbox.TreeOptions{}))
		t.holds("d/sub/h", "content")
		t.same("what is in it", t.list("d"), []string{"f", "sub"})
	}},
	{Name: "devices are refused", run: func(t *trial) {
		hostile(t, other(tar.TypeChar, "device", ""))
		hostile(t, other(tar.TypeBlock, "device", ""))
	}},
	{Name: "what is refused keeps the rest from nothing", run: func(t *trial) {
		err := t.box.WriteTree(t.ctx, "in", bytes.NewReader(archive(t, file("a", "1"), file("../x", "evil"), file("b", "2"), other(tar.TypeChar, "dev", ""), file("c", "3"))), sandbox.TreeOptions{})
		t.same("the number of failures", len(treeErrors(t, err)), 2)
		t.same("what is in it", t.list("in"), []string{"a", "b", "c"})
	}},
	{Name: "many failures are counted, and not all kept", run: func(t *trial) {
		var all []entry
		for i := range 250 {
			all = append(all, file(fmt.Sprintf("../evil-%d", i), "x"))
		}
		err := t.box.WriteTree(t.ctx, "in", bytes.NewReader(archive(t, all...)), sandbox.TreeOptions{})
		var te *sandbox.TreeError
		if !errors.As(err, &te) || len(te.Failed) > 100 || len(te.Failed)+te.More != 250 {
			t.Fatalf("got error %s", short(fmt.Sprint(err)))
		}
		t.same("what is left", t.list("."), []string{"in"})
	}},
	{Name: "Progress is told sparsely, rising, and once at the end", run: progress},
}

func (t *trial) tree(name string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := t.box.ReadTree(t.ctx, name, &b, sandbox.TreeOptions{}); err != nil {
		t.Fatalf("read the tree %q: %v", name, err)
	}
	return b.Bytes()
}

func keysOf(m map[string]string) []string {
	return slices.Sorted(maps.Keys(m))
}

func roundTrip(t *trial) {
	files := []sandbox.File{{Name: "from/empty"}, {Name: "from/exec", Mode: 0o750, Content: []byte("#!/bin/sh\n")}, {Name: "from/big", Content: []byte(numbered(3_000_001))}}
	for _, odd := range oddNames {
		files = append(files, sandbox.File{Name: "from/" + odd.name, Content: []byte(odd.what)}, sandbox.File{Name: "from/dirs/" + odd.name + "/" + odd.name, Content: []byte(odd.what)})
	}
	errs, err := t.box.WriteFiles(t.ctx, files)
	t.ok(err)
	t.ok(errors.Join(errs...))
	t.sh(`cd from && mkdir -p hollow/deep && chmod 0700 hollow && mkfifo pipe && ln -s big link && ln -s /nowhere/at/all dangling && ln -s loop loop && ln -s "it's" "odd
link" && ln big again`)
	b := t.tree("from")
	t.ok(t.box.WriteTree(t.ctx, "to", bytes.NewReader(b), sandbox.TreeOptions{}))
	want, got := entriesOf(t, b), entriesOf(t, t.tree("to"))
	delete(want, ".")
	delete(got, ".")
	for name, told := range want {
		if got[name] != told {
			t.Errorf("%q: went as %q and came as %q", name, told, got[name])
		}
	}
	t.same("the names", keysOf(got), keysOf(want))
	t.same("the names and the files", len(want) >= len(files), true)
	t.holds("to/again", numbered(3_000_001))
}

func changing(t *trial) {
	t.sh(`mkdir d && head -c 400000 /dev/zero > d/shrinks && touch d/stays`)
	t.fifo("stop")
	p := t.start(shell(`cat stop > /dev/null & w=$!
		while kill -0 $w 2>/dev/null; do head -c 400000 /dev/zero > d/shrinks; : > d/shrinks; touch d/comes; rm d/comes; done`))
	for range 15 {
		var b bytes.Buffer
		err := t.box.ReadTree(t.ctx, "d", &b, sandbox.TreeOptions{})
		var te *sandbox.TreeError
		if err != nil && !errors.As(err, &te) {
			t.Fatalf("got error %v, want a *TreeError or none", err)
		}
		if got := entriesOf(t, b.Bytes()); got["stays"] == "" {
			t.Fatalf("the archive lacks what never changed")
		}
	}
	t.release("stop")
	t.follow(p, offsets0)
}

// treeErrors takes a TreeError apart.
func treeErrors(t *trial, err error) []error {
	t.Helper()
	var te *sandbox.TreeError
	if !errors.As(err, &te) {
		t.Fatalf("got error %v, want a *TreeError", err)
	}
	for _, failed := range te.Failed {
		var pe *fs.PathError
		if !errors.As(failed, &pe) {
			t.Errorf("the TreeError holds %T, not an *fs.PathError", failed)
		}
	}
	return te.Failed
}

// hostile holds WriteTree to refuse the last of the entries, and to touch nothing outside "in".
func hostile(t *trial, entries ...entry) {
	t.Helper()
	t.mkdir("in")
	t.put("secret", "s3cr3t")
	before := t.list(".")
	err := t.box.WriteTree(t.ctx, "in", bytes.NewReader(archive(t, entries...)), sandbox.TreeOptions{})
	last := entries[len(entries)-1]
	refused := treeErrors(t, err)
	if !errors.Is(refused[len(refused)-1], syscall.EINVAL) {
		t.Errorf("%q: refused with %v, want EINVAL", last.Name, refused)
	}
	t.same("what is there after "+last.Name, t.list("."), before)
	t.holds("secret", "s3cr3t")
	for _, name := range t.list("in") {
		if name == "outside" || name == "outdir" || name == "h" || name == "device" {
			t.Errorf("%q was made inside as %q", last.Name, name)
		}
	}
}

func progress(t *trial) {
	t.sh(`mkdir d && i=0; while [ $i -lt 40 ]; do head -c 1000000 /dev/zero > d/f$i; i=$((i+1)); done`)
	var calls []int64
	var b bytes.Buffer
	tell := sandbox.TreeOptions{Progress: func(n int64) { calls = append(calls, n) }}
	check := func(what string, began time.Time) {
		t.Helper()
		if len(calls) == 0 {
			t.Fatalf("%s told no progress", what)
		}
		for i, n := range calls {
			if i > 0 && n < calls[i-1] {
				t.Errorf("%s told %d after %d", what, n, calls[i-1])
			}
		}
		if n := calls[len(calls)-1]; n != int64(b.Len()) {
			t.Errorf("%s told %d at the end, of %d", what, n, b.Len())
		}
		if most := 4 + 10*int(time.Since(began)/time.Second); len(calls) > 10+most {
			t.Errorf("%s told its progress %d times", what, len(calls))
		}
		calls = nil
	}
	began := time.Now()
	t.ok(t.box.ReadTree(t.ctx, "d", &b, tell))
	check("ReadTree", began)
	began = time.Now()
	t.ok(t.box.WriteTree(t.ctx, "e", bytes.NewReader(b.Bytes()), tell))
	check("WriteTree", began)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

type failingReader struct {
	r   *bytes.Reader
	err error
}

func (r *failingReader) Read(p []byte) (int, error) {
	if r.r.Len() == 0 {
		return 0, r.err
	}
	return r.r.Read(p)
}
