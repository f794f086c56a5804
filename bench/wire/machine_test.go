package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
)

const (
	app     = "tenant-bench"
	machine = "d8900000000000"
	scope   = "bench"
)

// control is the control server as it ships, keeper and server, with its spool on the disk of the
// temporary directory.
type control struct {
	keeper, server int
	client         *client.Client
	dials          atomic.Int32
}

// start runs bin/flyfleet-controlserver until the benchmark ends.
func start(b *testing.B) *control {
	b.Helper()
	binary, err := filepath.Abs("../../bin/flyfleet-controlserver")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		b.Fatalf("%v: run make build", err)
	}
	dir := b.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil { // the exec user must get through
			b.Fatal(err)
		}
	}
	root, err := token.NewRoot("bench")
	if err != nil {
		b.Fatal(err)
	}
	key, err := root.Delegate("rt-bench", []string{app}, 24*time.Hour, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), binary, "serve")
	cmd.Env = append(os.Environ(), "FLYFLEET_TRUST="+root.Trust(), "FLYFLEET_LISTEN=127.0.0.1:0", "FLYFLEET_DATA="+filepath.Join(dir, "data"),
		"FLYFLEET_RUN="+filepath.Join(dir, "run"), "FLY_APP_NAME="+app, "FLY_MACHINE_ID="+machine)
	log, err := cmd.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	c := &control{keeper: cmd.Process.Pid}
	logged := make(chan struct{})
	b.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			b.Error(err)
		}
		<-logged
		if err := cmd.Wait(); err != nil {
			b.Errorf("the control server: %v", err)
		}
	})
	address := c.readLog(b, log, logged)
	c.client, err = client.New(client.Options{
		Address: address, Scope: scope, Tokens: client.SignWith(key, app, machine, scope, scope),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c.dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.client.Close)
	return c
}

// readLog waits for the server's address, and reads on so that the server never waits for us.
func (c *control) readLog(b *testing.B, log io.Reader, over chan<- struct{}) string {
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var event struct {
			Msg, Address string
			Pid          int
		}
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.Msg == "serving" {
			c.server = event.Pid
			go func() {
				_, _ = io.Copy(io.Discard, log)
				close(over)
			}()
			return event.Address
		}
	}
	close(over)
	b.Fatal("the control server does not serve; its last line: ", lines.Text())
	return ""
}

// pss is the memory that a process has in proportion to how it is shared, in bytes.
func pss(b *testing.B, pid int) int {
	b.Helper()
	rollup, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		b.Fatalf("%v: a control server hides its memory from all but root; run as root", err)
	}
	for line := range bytes.Lines(rollup) {
		if f := strings.Fields(string(line)); len(f) == 3 && f[0] == "Pss:" {
			kib, err := strconv.Atoi(f[1])
			if err != nil {
				b.Fatal(err)
			}
			return kib << 10
		}
	}
	b.Fatal("the kernel does not tell Pss")
	return 0
}
