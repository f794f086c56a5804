package cp_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// onTerminal runs the program with a terminal of some columns as its stderr, and returns all that it wrote there and to stdout.
func onTerminal(t *testing.T, cols uint16, args ...string) (screen, stdout string) {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: cols}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), selfEnv+"=1")
	cmd.Stdout, cmd.Stderr = &out, slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	// Once the program has ended nobody has the other end: that is EIO.
	shown, err := io.ReadAll(master)
	if err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%q: %v: %q", args, err, shown)
	}
	return string(shown), out.String()
}

// left is what a terminal shows in the end, of a program that writes lines and clears them.
func left(screen string) string {
	lines := strings.Split(screen, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		if at := strings.LastIndex(line, "\x1b[K"); at >= 0 {
			line = line[at+len("\x1b[K"):]
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// On a terminal a copy shows how far it is, in one line that never wraps, and takes it away again.
func progress(t *testing.T) {
	const size = 12 << 20
	dir := t.TempDir()
	content := random(t, size)
	file, back := filepath.Join(dir, "file"), filepath.Join(dir, "back")
	write(t, file, content, 0o644)
	percent := regexp.MustCompile(`(\d+)%`)
	for _, c := range []struct {
		cols     uint16
		from, to string
		bar      bool
	}{{80, file, "tenant:shown", true}, {80, "tenant:shown", back, true}, {18, file, "tenant:narrow", false}} {
		screen, stdout := onTerminal(t, c.cols, "cp", c.from, c.to)
		if stdout != "" {
			t.Errorf("%s: stdout has %q", c.to, stdout)
		}
		if want := regexp.MustCompile(`^1 files, 12\.0 MiB in \d+\.\d s\n$`); !want.MatchString(left(screen)) {
			t.Errorf("%s: the terminal shows %q in the end", c.to, left(screen))
		}
		drawn := strings.Split(screen, "\r\x1b[K")
		before := -1
		for _, line := range drawn[1 : len(drawn)-1] {
			if len(line) >= int(c.cols) || strings.Contains(line, "\n") || strings.HasPrefix(line, "[") != c.bar {
				t.Errorf("%s: on %d columns there is %q", c.to, c.cols, line)
			}
			at := percent.FindStringSubmatch(line)
			if at == nil {
				t.Errorf("%s: %q does not tell how far it is", c.to, line)
				continue
			}
			n, _ := strconv.Atoi(at[1])
			if n < before || n > 100 {
				t.Errorf("%s: %d%% after %d%%", c.to, n, before)
			}
			before = n
		}
		if before < 0 {
			t.Errorf("%s: nothing was drawn: %q", c.to, screen)
		}
	}
	// Without a terminal, and with --json, there is none of it.
	if screen, stdout := onTerminal(t, 80, "--json", "cp", file, "tenant:json"); strings.Contains(left(screen), "files") || !strings.HasPrefix(stdout, "{") {
		t.Errorf("with --json the terminal has %q, stdout %q", screen, stdout)
	}
}
