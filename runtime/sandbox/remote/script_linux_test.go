package remote

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var allScripts = []script{
	statScript, manyScript, existsScript, listScript, readScript, bulkScript, writeScript, writesScript, batchScript, unstageScript, mkdirScript, mkdirsScript, removeScript,
	packScript, vetScript, unpackScript, modesScript, readsScript, sweepScript, discardScript,
}

// shells that a machine may have.
var shells = [][]string{{"sh"}, {"busybox", "sh"}}

func TestScriptsAreWholeAndPlain(t *testing.T) {
	entries, err := sources.ReadDir("scripts")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{"prelude.sh": true, "place.sh": true, "part.sh": true}
	for _, s := range allScripts {
		used[s.name+".sh"] = true
		own, err := sources.ReadFile("scripts/" + s.name + ".sh")
		if err != nil || !strings.HasSuffix(strings.TrimSpace(s.text), lastLine(string(own))) || !strings.Contains(s.text, "why() {") {
			t.Errorf("%s: its text is not whole (%v)", s.name, err)
		}
		for _, shell := range shells {
			command := exec.Command(shell[0], append(shell[1:], "-n", "-c", s.text)...)
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%s: %v does not read it: %v: %s", s.name, shell, err, out)
			}
		}
	}
	for _, e := range entries {
		if !used[e.Name()] {
			t.Errorf("%s is used by none", e.Name())
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimLeft(lines[len(lines)-1], " ")
}

// Names are never in a script's text, whatever they are.
func TestAScriptsTextIsTheSameForEveryName(t *testing.T) {
	o := operation{link: &link{}, dir: "/d", id: "018cc251-f400-7000-8000-000000000000"}
	for _, name := range append([]string{"$(touch pwned)", "'; touch pwned; '"}, oddNames...) {
		spec := o.spec(&job{script: statScript, args: []string{spell(name)}})
		argv := spec.GetArgv()
		if len(argv) != 6 || string(argv[0]) != "sh" || string(argv[1]) != "-c" || string(argv[2]) != statScript.text || string(argv[5]) != spell(name) {
			t.Errorf("%q: %q", name, argv)
		}
	}
}

// userland is what programs there are.
type userland struct{ path, shell string }

func userlands(t *testing.T) map[string]userland {
	t.Helper()
	own, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal("busybox is missing: apt-get install busybox-static")
	}
	links := t.TempDir()
	for _, name := range []string{"sh", "tar", "mkdir", "mv", "rmdir", "rm", "stat", "readlink"} {
		if err := os.Symlink(own, filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]userland{"coreutils": {os.Getenv("PATH"), "sh"}, "busybox": {links, filepath.Join(links, "sh")}}
}

// run runs the script of a batch in a directory and returns its answer.
func (b batch) run(t *testing.T, dir string, u userland) string {
	t.Helper()
	archive, err := b.archive()
	if err != nil {
		t.Fatal(err)
	}
	command := b.command(dir, u)
	command.Stdin = bytes.NewReader(archive)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func (b batch) command(dir string, u userland) *exec.Cmd {
	command := exec.Command(u.shell, append([]string{"-c", batchScript.text, "flyfleet", dir}, b.args()...)...)
	command.Env, command.Dir = []string{"PATH=" + u.path, "LC_ALL=C"}, "/"
	return command
}

func batchOf(t *testing.T, names ...string) batch {
	t.Helper()
	var files []sandbox.File
	var sent []int
	for i, name := range names {
		files, sent = append(files, sandbox.File{Name: name, Content: []byte(name)}), append(sent, i)
	}
	b, rest := newBatch("0", files, sent, nil)
	if len(rest) > 0 {
		t.Fatalf("not in the batch: %v", rest)
	}
	return b
}

// What is plain is done at once: where it is not, all of it would be written again, one by one.
func TestAPlainBatchIsDoneAtOnce(t *testing.T) {
	for name, u := range userlands(t) {
		for _, names := range [][]string{
			{"a", "b"},
			{"new/a", "new/.b", "new/..c", "new/*"},
			{"new/below/a", "new/below/b"},
			{"old/a", "old/.b"},
			{"old/a", "old/kept"},
			{"old/new/a"},
			{"a", "new/a", "old/a", "new/below/a"},
			{"-n/-a", "-n/--", "-n/b c"},
			{"new/" + strings.Repeat("n", 255)},
		} {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "old"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "old/kept"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if got := batchOf(t, names...).run(t, dir, u); got != "done\n" {
				t.Errorf("%s: %q: %q", name, names, got)
			}
			holdsBatch(t, name, dir, names)
		}
	}
}

// holdsBatch looks that a directory has files whose contents are their names, with the modes of new files, and no staging.
func holdsBatch(t *testing.T, userland, dir string, names []string) {
	t.Helper()
	modes := map[string]fs.FileMode{"old": 0o700}
	found := 0
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, _ error) error {
		rel, _ := filepath.Rel(dir, p)
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o644)
		if e.IsDir() {
			want = cmp.Or(modes[rel], 0o755)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s: %q: %s has mode %o", userland, names, rel, info.Mode().Perm())
		}
		if content, _ := os.ReadFile(p); slices.Contains(names, rel) && string(content) == rel {
			found++
		} else if !e.IsDir() && rel != "old/kept" || strings.HasPrefix(e.Name(), ".flyfleet") {
			t.Errorf("%s: %q: %s is there, with %q", userland, names, rel, content)
		}
		return nil
	})
	if err != nil || found != len(names) {
		t.Errorf("%s: %q: %d files: %v", userland, names, found, err)
	}
}

// A directory that somebody makes while its files are unpacked is not taken from under their feet.
func TestABatchKeepsADirectoryThatWasMadeMeanwhile(t *testing.T) {
	for name, u := range userlands(t) {
		dir := t.TempDir()
		b := batchOf(t, "new/a", "new/b")
		b.files[0].data = make([]byte, 1<<20)
		archive, err := b.archive()
		if err != nil {
			t.Fatal(err)
		}
		command := b.command(dir, u)
		stdin, err := command.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		command.Stdout = &out
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		// The first half is in a pipe and tar, which has made the staging by the time that the pipe takes the end of it.
		if _, err := stdin.Write(archive[:len(archive)/2]); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, "new"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err = stdin.Write(archive[len(archive)/2:])
		if err := errors.Join(err, stdin.Close(), command.Wait()); err != nil {
			t.Fatal(err)
		}
		if out.String() != "again\n" {
			t.Errorf("%s: %q", name, out.String())
		}
		left, err := filepath.Glob(dir + "/*/*")
		hidden, _ := filepath.Glob(dir + "/.*")
		if err != nil || len(left)+len(hidden) != 0 {
			t.Errorf("%s: left: %q %q", name, left, hidden)
		}
	}
}
