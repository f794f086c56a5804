package cp_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/command"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/transfer"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
)

func TestMain(m *testing.M) {
	machineinit.RunIfInit()
	if os.Getenv(selfEnv) != "" {
		os.Exit(command.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// selfEnv makes this test binary the flyfleet program.
const selfEnv = "FLYFLEET_TEST_SELF"

func TestFilesOfARealMachine(t *testing.T) {
	machinetest.Start(t)
	t.Run("a tree with odd names goes there and back", treeBothWays)
	t.Run("killed on the way up, it goes on", func(t *testing.T) { killed(t, "up") })
	t.Run("killed on the way down, it goes on", func(t *testing.T) { killed(t, "down") })
	t.Run("a killed tree goes on", killedTree)
	t.Run("streams", streams)
	t.Run("on a terminal it shows how far it is", progress)
	t.Run("a machine's links lead nowhere here", linksOfTheMachine)
	t.Run("errors and exit codes", exitCodes)
	t.Run("ls", listing)
	t.Run("cat", printing)
	t.Run("nothing is left in ps", nothingLeft)
}

// The machine's end needs nothing that busybox lacks.
func TestFilesOfAMachineOfBusybox(t *testing.T) {
	machinetest.StartBusybox(t)
	if got := onMachine(t, "echo $PATH; ls /usr/bin 2>/dev/null; readlink /bin/tar"); !strings.HasSuffix(got, ":/bin\n/bin/busybox\n") {
		t.Fatalf("the machine's programs are %q", got)
	}
	t.Run("a tree with odd names goes there and back", treeBothWays)
	t.Run("killed on the way up, it goes on", func(t *testing.T) { killed(t, "up") })
	t.Run("a killed tree goes on", killedTree)
	t.Run("streams", streams)
	t.Run("errors and exit codes", exitCodes)
	t.Run("ls", listing)
	t.Run("cat", printing)
}

// good runs the program, which must end well, and returns its output.
func good(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := machinetest.Flyfleet(t.Context(), args...)
	if code != 0 {
		t.Fatalf("%q: exit code %d: %s", args, code, stderr)
	}
	return stdout
}

func onMachine(t *testing.T, script string) string {
	t.Helper()
	return good(t, "exec", "tenant", "--", "sh", "-c", script)
}

func copied(t *testing.T, args ...string) transfer.Report {
	t.Helper()
	var r transfer.Report
	if err := json.Unmarshal([]byte(good(t, append([]string{"--json", "cp"}, args...)...)), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func random(t *testing.T, size int) []byte {
	t.Helper()
	b := make([]byte, size)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, name string, content []byte, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, mode); err != nil {
		t.Fatal(err)
	}
}

var oddNames = []string{"a b", " leading", "trailing ", "new\nline", "-rf", "*", "$(touch x)", "quote'\"", "\xff\xfe", "\x1b[31m", "a:b", "..dots", strings.Repeat("n", 255)}

func treeBothWays(t *testing.T) {
	dir := t.TempDir()
	src, back := filepath.Join(dir, "src"), filepath.Join(dir, "back")
	old := time.Unix(1_500_000_000, 0)
	for _, name := range oddNames {
		write(t, filepath.Join(src, "d", name), []byte(name), 0o640)
		if err := os.Chtimes(filepath.Join(src, "d", name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	big := random(t, 3<<20+1)
	write(t, filepath.Join(src, "big"), big, 0o755)
	if err := os.Symlink("no/where", filepath.Join(src, "link")); err != nil {
		t.Fatal(err)
	}
	r := copied(t, src, "tenant:tree")
	if r.Files != len(oddNames)+1 || r.Links != 1 || len(r.Failed) > 0 || r.Seconds <= 0 {
		t.Errorf("%+v", r)
	}
	if got := onMachine(t, `stat -c '%a %Y' "tree/d/a b" tree/big | cut -c1-14; readlink tree/link; ls -A tree`); !strings.HasPrefix(got, "640 1500000000\n755 ") ||
		!strings.HasSuffix(got, "no/where\nbig\nd\nlink\n") {
		t.Errorf("on the machine: %q", got)
	}
	if r := copied(t, "-r", "tenant:tree", back); r.Files != len(oddNames)+1 {
		t.Errorf("back: %+v", r)
	}
	for _, name := range oddNames {
		at := filepath.Join(back, "d", name)
		got, err := os.ReadFile(at)
		if err != nil || string(got) != name {
			t.Errorf("%q: %q, %v", name, got, err)
			continue
		}
		if info, err := os.Stat(at); err != nil || info.Mode() != 0o640 || !info.ModTime().Equal(old) {
			t.Errorf("%q: %v, %v", name, info, err)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(back, "big")); !bytes.Equal(got, big) {
		t.Error("the large file differs")
	}
	for _, again := range []transfer.Report{copied(t, src, "tenant:tree"), copied(t, "tenant:tree", back)} {
		if again.Bytes != 0 || again.Files != 0 || again.Kept != len(oddNames)+2 {
			t.Errorf("again: %+v", again)
		}
	}
}

// start runs the program as a process of its own, behind the door given.
func start(t *testing.T, door *door, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), selfEnv+"=1", "FLYFLEET_TRANSPORT="+door.url)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// cut lets a copy run until so many bytes have passed the door, kills it with the door shut, and returns how many passed.
func cut(t *testing.T, after int64, args ...string) int64 {
	t.Helper()
	d := openDoor(t, after)
	cmd := start(t, d, args...)
	select {
	case <-d.reached:
	case <-t.Context().Done():
	case <-time.After(2 * time.Minute):
		t.Error("the copy got nowhere")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	d.close()
	return d.passed.Load()
}

func killed(t *testing.T, way string) {
	const size, after = 48 << 20, 30 << 20
	dir := t.TempDir()
	content := random(t, size)
	here, name := filepath.Join(dir, "f"), "killed-"+way
	write(t, here, content, 0o600)
	from, to := here, "tenant:"+name
	if way == "down" {
		copied(t, here, to)
		from, to = to, filepath.Join(dir, "down")
	}
	cut(t, after, "cp", from, to)
	if way == "up" {
		if got := onMachine(t, "ls "+name+" 2>/dev/null || echo none"); got != "none\n" {
			t.Errorf("after the kill there is %q", got)
		}
	} else if _, err := os.Stat(to); err == nil {
		t.Error("after the kill there is a file of the final name")
	}
	d, before := openDoor(t, 0), os.Getenv("FLYFLEET_TRANSPORT")
	t.Setenv("FLYFLEET_TRANSPORT", d.url)
	r := copied(t, from, to)
	t.Setenv("FLYFLEET_TRANSPORT", before)
	d.close()
	// Pieces that were under way at the cut are sent again, the others are not.
	const lost = 4 * (4 << 20)
	if r.Resumed < after-lost || r.Resumed+r.Bytes != size || r.Files != 1 {
		t.Errorf("%+v: at least %d bytes were to be taken over", r, after-lost)
	}
	if passed := d.passed.Load(); passed > r.Bytes+(1<<20) {
		t.Errorf("%d bytes passed for %d that were missing", passed, r.Bytes)
	}
	if way == "up" {
		to = filepath.Join(dir, "back")
		copied(t, "tenant:"+name, to)
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the file differs: %v", err)
	}
	if got := onMachine(t, "ls -A | grep flyfleet-part || echo none"); got != "none\n" {
		t.Errorf("parts are left: %q", got)
	}
	onMachine(t, "rm "+name)
}

func killedTree(t *testing.T) {
	const files, each = 60, 512 << 10
	src := filepath.Join(t.TempDir(), "src")
	for i := range files {
		write(t, filepath.Join(src, string(rune('a'+i%26)), strings.Repeat("x", i+1)), random(t, each), 0o644)
	}
	cut(t, files*each/2, "cp", src, "tenant:half")
	sizes := onMachine(t, "find half -type f ! -name '.flyfleet*' ! -path '*/.flyfleet*' -exec stat -c %s {} +")
	for size := range strings.FieldsSeq(sizes) {
		if size != "524288" {
			t.Errorf("a torn file of %s bytes has its final name", size)
		}
	}
	r := copied(t, src, "tenant:half")
	if r.Kept < files/4 || r.Kept+r.Files != files || r.Bytes != int64(r.Files)*each {
		t.Errorf("%+v: what was there was sent again", r)
	}
	if got := onMachine(t, "find half -type f | wc -l; ls -A half | grep flyfleet || echo none"); got != "60\nnone\n" {
		t.Errorf("in the end: %q", got)
	}
}

func streams(t *testing.T) {
	content := random(t, 5<<20)
	var out, errOut bytes.Buffer
	if code := command.Main(t.Context(), []string{"cp", "-", "tenant:streamed"}, bytes.NewReader(content), &out, &errOut); code != 0 || out.Len()+errOut.Len() > 0 {
		t.Fatalf("%d %q %q", code, out.String(), errOut.String())
	}
	if got := good(t, "cp", "tenant:streamed", "-"); got != string(content) {
		t.Error("the bytes differ")
	}
	if got := good(t, "cat", "tenant", "streamed", "streamed"); got != string(content)+string(content) {
		t.Error("cat's bytes differ")
	}
}

func linksOfTheMachine(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	onMachine(t, "mkdir -p trap/sub && ln -s "+outside+" trap/out && ln -s ../../.. trap/up && echo bad >trap/sub/f")
	to := filepath.Join(dir, "trap")
	copied(t, "tenant:trap", to)
	if target, err := os.Readlink(filepath.Join(to, "out")); err != nil || target != outside {
		t.Errorf("the link is %q: %v", target, err)
	}
	// What was a link at the last copy is a directory on the machine now: nothing goes through the link.
	onMachine(t, "rm trap/out && mkdir trap/out && echo bad >trap/out/f")
	code, _, stderr := machinetest.Flyfleet(t.Context(), "cp", "tenant:trap", to)
	if left, _ := os.ReadDir(outside); code != 1 || len(left) > 0 || !strings.Contains(stderr, "escapes") {
		t.Errorf("exit code %d, %q; outside: %v", code, stderr, left)
	}
}

func exitCodes(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), []byte("f"), 0o644)
	onMachine(t, "mkdir -p shut && chmod 0555 shut; mkdir -p d; echo x >x; chmod 000 x")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"cp", "tenant:no", dir}, 1, "tenant:no: no such file"},
		{[]string{"cp", filepath.Join(dir, "no"), "tenant:x"}, 1, "no such file"},
		{[]string{"cp", filepath.Join(dir, "f"), "tenant:no/f"}, 1, "tenant:no/: no such file"},
		{[]string{"cp", dir, "tenant:streamed"}, 1, "not a directory"},
		{[]string{"cp", filepath.Join(dir, "f"), "tenant:shut/f"}, 1, "Permission denied"},
		{[]string{"cp", "tenant:x", dir}, 1, "permission denied"},
		{[]string{"cp", "a", "b"}, 2, "APP:PATH"},
		{[]string{"cp", "a:b", "b:c"}, 2, "this computer"},
		{[]string{"--json", "cp", "tenant:x", "-"}, 2, "--json"},
		{[]string{"cp", "tenant:x"}, 2, "to"},
		{[]string{"cp", "nobody:x", dir}, 1, "no app nobody"},
		{[]string{"cat", "tenant", "no"}, 1, "no: no such file"},
		{[]string{"cat", "tenant", "d"}, 1, "d: is a directory"},
		{[]string{"ls", "tenant", "no"}, 1, "tenant:no: no such file"},
	} {
		code, stdout, stderr := machinetest.Flyfleet(t.Context(), c.args...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q; want %d and %q", c.args, code, stdout, stderr, c.code, c.says)
		}
	}
	code, stdout, stderr := machinetest.Flyfleet(t.Context(), "--json", "cp", "tenant:no", dir)
	var r transfer.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 1 || r.From != "tenant:no" || !strings.Contains(stderr, "no such file") {
		t.Errorf("%d %q %q %v", code, stdout, stderr, err)
	}
}

func listing(t *testing.T) {
	onMachine(t, `mkdir l && cd l && printf 12345 >f && chmod 4750 f && touch -d @1500000000 f && ln -s f link && mkdir d && chmod 1777 d && touch "$(printf 'a\nb')" "$(printf '\377')" && mkfifo p`)
	var list []struct {
		Name, Type, Mode, Target string
		NameBase64               string `json:"name_base64"`
		Size                     int64
		Modified                 time.Time
	}
	if err := json.Unmarshal([]byte(good(t, "--json", "ls", "tenant", "l")), &list); err != nil || len(list) != 6 {
		t.Fatal(err, list)
	}
	if f := list[2]; f.Name != "f" || f.Type != "file" || f.Mode != "4750" || f.Size != 5 || f.Modified.Unix() != 1_500_000_000 {
		t.Errorf("%+v", f)
	}
	if l := list[3]; l.Type != "link" || l.Target != "f" {
		t.Errorf("%+v", l)
	}
	if list[0].Name != "a\nb" || list[5].NameBase64 != "/w==" || list[4].Type != "fifo" || list[1].Mode != "1777" {
		t.Errorf("%+v", list)
	}
	text := good(t, "ls", "tenant", "l/f")
	if !strings.HasPrefix(text, "-rwsr-x--- 1 ") || !strings.HasSuffix(text, " 5 2017-07-14 02:40:00 l/f\n") {
		t.Errorf("%q", text)
	}
	if text := good(t, "ls", "tenant", "l"); !strings.Contains(text, "link -> f\n") || !strings.Contains(text, "drwxrwxrwt") || !strings.Contains(text, "a\nb\n") {
		t.Errorf("%q", text)
	}
	if names := good(t, "ls", "tenant"); !strings.Contains(names, " l\n") {
		t.Errorf("the workspace: %q", names)
	}
}

func printing(t *testing.T) {
	onMachine(t, `printf '\377\000\r\n' >bytes`)
	if got := good(t, "cat", "tenant", "bytes", "/data/workspace/bytes"); got != "\xff\x00\r\n\xff\x00\r\n" {
		t.Errorf("%q", got)
	}
	code, stdout, stderr := machinetest.Flyfleet(t.Context(), "cat", "tenant", "no", "bytes")
	if code != 1 || stdout != "\xff\x00\r\n" || !strings.Contains(stderr, "no: no such file") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	if got := good(t, "cat", "tenant", "/proc/self/comm"); got == "" {
		t.Error("a file of /proc is empty")
	}
}

// nothingLeft sees that copies leave the list of commands to people.
func nothingLeft(t *testing.T) {
	scripts := func() (n int) {
		var list []struct{ Argv []string }
		if err := json.Unmarshal([]byte(good(t, "--json", "ps", "tenant")), &list); err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if slices.Contains(c.Argv, "flyfleet") {
				n++
			}
		}
		return n
	}
	before, dir := scripts(), t.TempDir()
	copied(t, "tenant:half", filepath.Join(dir, "half"))
	copied(t, filepath.Join(dir, "half"), "tenant:other")
	good(t, "ls", "tenant")
	// The last of a sandbox's own commands may be kept when it closes.
	if after := scripts(); after > before+6 {
		t.Errorf("%d commands of copies are kept, %d before", after, before)
	}
}
