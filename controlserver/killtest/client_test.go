package killtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// untilGo prints a numbered text until a file with the exec's id exists, then how far it came.
const untilGo = `i=10000000; while [ ! -e "$WORKSPACE/go-$0" ]; do echo $i; i=$((i+1)); done; exit 3`

// letGo ends a command that runs untilGo.
func letGo(t *testing.T, m *machine, id string) {
	t.Helper()
	writeFile(t, m, "go-"+id)
}

// writeFile makes an empty file in the workspace.
func writeFile(t *testing.T, m *machine, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.Data, "workspace", name), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// errand is what a client process is told, on its standard input.
type errand struct {
	Address, Token, ID string
	// Copy is the file that holds the output so far. Code is made when the exec has ended.
	Copy, Code string
}

// clientMain is a client as a process of its own: it goes on where its copy of the output ends.
func clientMain() int {
	var e errand
	err := json.NewDecoder(bufio.NewReader(os.Stdin)).Decode(&e)
	if err == nil {
		err = e.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (e *errand) run() error {
	file, err := os.OpenFile(e.Copy, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	c, err := client.New(client.Options{
		Address: e.Address, Scope: machinetest.Scope,
		Tokens: client.TokenFunc(func(context.Context) (string, error) { return e.Token, nil }),
	})
	if err != nil {
		return err
	}
	follow := patient
	follow.From = &wirev1.Offsets{Stdout: uint64(info.Size())}
	got, err := c.Run(context.Background(), client.Command{ID: e.ID, Spec: script(e.ID, untilGo), Follow: follow}, client.Writers(file, os.Stderr))
	if err == nil {
		err = right(got, 3)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(e.Code, []byte(fmt.Sprint(got.Exit.GetStdoutEnd())), 0o600)
}

// clientKilled kills clients that follow one command, again and again; each goes on from the copy that
// the one before left.
func clientKilled(t *testing.T, sum *tally) {
	deaths := 8
	if long() {
		deaths = 40
	}
	m, book := start(t, machinetest.Options{}), newLedger()
	dir := t.TempDir()
	e := errand{Address: m.Address, ID: book.ask(), Copy: filepath.Join(dir, "copy"), Code: filepath.Join(dir, "code")}
	killed := 0
	for killed < deaths {
		e.Token = m.Token(machinetest.Scope)
		before := size(e.Copy)
		p, complaint := e.start(t)
		// A client that was killed before it took a byte would prove nothing.
		eventually(t, "output at a client", func() bool { return size(e.Copy) > before })
		pause(t.Context(), whim())
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("a client ended with %v: %s", err, complaint)
		}
		killed++
	}
	letGo(t, m, e.ID)
	p, complaint := e.start(t)
	if err := p.Wait(); err != nil {
		t.Fatalf("the last client ended with %v: %s", err, complaint)
	}
	text, err := os.ReadFile(e.Copy)
	if err != nil {
		t.Fatal(err)
	}
	end, err := os.ReadFile(e.Code)
	if err != nil || string(end) != fmt.Sprint(len(text)) {
		t.Fatalf("the exit says %s bytes, the copy has %d, %v", end, len(text), err)
	}
	if err := (numbered{"\n"}).check(0, text); err != nil {
		t.Fatal(err)
	}
	book.right(e.ID, int64(len(text)))
	sum.add(1, killed, book.exact(t, m.Data))
}

func (e *errand) start(t *testing.T) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	told, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	p := exec.CommandContext(ctx, "/proc/self/exe")
	p.Env = append(os.Environ(), modeEnv+"=client")
	p.Stdin = strings.NewReader(string(told))
	complaint := new(strings.Builder)
	p.Stderr = complaint
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p, complaint
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
