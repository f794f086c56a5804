package sandboxtest

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var batchCases = []Case{
	{Name: "StatMany answers in order, each with its own error", run: func(t *trial) {
		t.sh(`printf 12345 > f && mkdir d && ln -s f l && ln -s nowhere n && ln -s loop loop`)
		given := []string{"l", "missing", "d", "loop", "f/x", "n", "f", "", "f", "l"}
		got, err := t.box.StatMany(t.ctx, given)
		t.ok(err)
		t.same("the number", len(got), len(given))
		for i, name := range given {
			info, err := t.box.Stat(t.ctx, name)
			t.same("what is told of "+name, got[i].Info, info)
			t.same("the error about "+name, fmt.Sprint(got[i].Err), fmt.Sprint(err))
		}
		t.errno(got[1].Err, "missing", syscall.ENOENT)
		t.errno(got[3].Err, "loop", syscall.ELOOP)
	}},
	// madarco/agentbox#359
	{Name: "StatMany of 5000 names, more than 128 KiB", run: func(t *trial) {
		long := strings.Repeat("n", 60)
		t.sh(`mkdir "$1" && cd "$1" && seq 1 2 999 | xargs touch`, long)
		given := make([]string, 5000)
		for i := range given {
			given[i] = fmt.Sprintf("%s/%d", long, i)
		}
		got, err := t.box.StatMany(t.ctx, given)
		t.ok(err)
		t.same("the number", len(got), len(given))
		for i, s := range got {
			if there := i < 1000 && i%2 == 1; there != (s.Err == nil) || !there && !errors.Is(s.Err, fs.ErrNotExist) {
				t.Fatalf("%s: error %v", given[i], s.Err)
			} else if there && s.Info.Name != fmt.Sprint(i) {
				t.Fatalf("%s: told as %q", given[i], s.Info.Name)
			}
		}
	}},
	{Name: "batches of nothing answer nothing", run: func(t *trial) {
		stats, err := t.box.StatMany(t.ctx, nil)
		t.ok(err)
		reads, err := t.box.ReadFiles(t.ctx, nil, 0)
		t.ok(err)
		errs, err := t.box.WriteFiles(t.ctx, nil)
		t.ok(err)
		t.same("the answers", len(stats)+len(reads)+len(errs), 0)
	}},
	{Name: "ReadFiles answers in order, each with its own error", run: func(t *trial) {
		t.put("a", allBytes())
		t.put("b", "")
		t.sh(`mkdir d && mkfifo p && ln -s a l`)
		got, err := t.box.ReadFiles(t.ctx, []string{"l", "missing", "d", "b", "p", "a", "", "a"}, 0)
		t.ok(err)
		for i, want := range []string{allBytes(), "", "", "", "", allBytes(), "", allBytes()} {
			t.same(fmt.Sprint("content ", i), string(got[i].Content), want)
		}
		t.errno(got[1].Err, "missing", syscall.ENOENT)
		t.errno(got[2].Err, "d", syscall.EISDIR)
		t.errno(got[4].Err, "p", syscall.EINVAL)
		t.errno(got[6].Err, "", syscall.EINVAL)
		for _, i := range []int{0, 3, 5, 7} {
			t.ok(got[i].Err)
		}
	}},
	{Name: "ReadFiles returns at most limit bytes of each", run: func(t *trial) {
		t.put("a", "0123456789")
		t.put("b", "abc")
		got, err := t.box.ReadFiles(t.ctx, []string{"a", "b"}, 5)
		t.ok(err)
		t.same("content", []string{string(got[0].Content), string(got[1].Content)}, []string{"01234", "abc"})
	}},
	{Name: "ReadFiles of a file that is too large is its EFBIG", run: func(t *trial) {
		t.put("a", "small")
		t.sh(`dd if=/dev/zero of=big bs=1 count=0 seek=268435457 2>/dev/null`)
		got, err := t.box.ReadFiles(t.ctx, []string{"a", "big", "a"}, 0)
		t.ok(err)
		t.errno(got[1].Err, "big", syscall.EFBIG)
		t.same("the others", []string{string(got[0].Content), string(got[2].Content)}, []string{"small", "small"})
	}},
	{Name: "ReadFiles of 200 odd and plain names", run: func(t *trial) {
		t.sh(`i=0; while [ $i -lt 200 ]; do printf "content $i" > "f $i"; i=$((i+1)); done`)
		given := make([]string, 200)
		for i := range given {
			given[i] = fmt.Sprintf("f %d", i)
		}
		got, err := t.box.ReadFiles(t.ctx, given, 0)
		t.ok(err)
		for i, r := range got {
			t.ok(r.Err)
			t.same("content", string(r.Content), fmt.Sprintf("content %d", i))
		}
	}},
	{Name: "WriteFiles writes 200, with parents and modes", run: func(t *trial) {
		files := make([]sandbox.File, 200)
		for i := range files {
			files[i] = sandbox.File{Name: fmt.Sprintf("d%d/f %d", i%7, i), Content: []byte(fmt.Sprintf("content %d", i))}
			if i%2 == 0 {
				files[i].Mode = 0o600
			}
		}
		errs, err := t.box.WriteFiles(t.ctx, files)
		t.ok(err)
		t.same("the number of answers", len(errs), 200)
		t.ok(errors.Join(errs...))
		t.same("what a command sees", t.sh(`cat "d3/f 199" "d0/f 0"`), "content 199content 0")
		for _, i := range []int{0, 1, 100, 199} {
			t.holds(files[i].Name, string(files[i].Content))
			want := fs.FileMode(0o644)
			if i%2 == 0 {
				want = 0o600
			}
			t.same("mode", t.stat(files[i].Name).Mode, want)
		}
		t.same("the directories", t.list("."), []string{"d0", "d1", "d2", "d3", "d4", "d5", "d6"})
	}},
	{Name: "when one of WriteFiles fails the others are written", run: func(t *trial) {
		t.sh(`echo x > file && mkdir dir && mkfifo p && echo old > old && chmod 0640 old && ln -s old l`)
		errs, err := t.box.WriteFiles(t.ctx, []sandbox.File{
			{Name: "a", Content: []byte("1")},
			{Name: "file/x"},
			{Name: "b", Content: []byte("2")},
			{Name: "dir"},
			{Name: "p"},
			{Name: ""},
			{Name: "l", Content: []byte("by the link")},
			{Name: "new/c", Content: []byte(allBytes())},
		})
		t.ok(err)
		t.errno(errs[1], "file/x", syscall.ENOTDIR)
		t.errno(errs[3], "dir", syscall.EISDIR)
		t.errno(errs[4], "p", syscall.EINVAL)
		t.errno(errs[5], "", syscall.EINVAL)
		t.ok(errors.Join(errs[0], errs[2], errs[6], errs[7]))
		t.holds("a", "1")
		t.holds("b", "2")
		t.holds("old", "by the link")
		t.same("mode", t.stat("old").Mode, fs.FileMode(0o640))
		t.holds("new/c", allBytes())
		t.same("what is left", t.list("."), []string{"a", "b", "dir", "file", "l", "new", "old", "p"})
	}},
	{Name: "a name twice in WriteFiles holds the last", run: func(t *trial) {
		errs, err := t.box.WriteFiles(t.ctx, []sandbox.File{{Name: "f", Content: []byte("1")}, {Name: "f", Content: []byte("2")}})
		t.ok(err)
		t.ok(errors.Join(errs...))
		t.holds("f", "2")
	}},
}
