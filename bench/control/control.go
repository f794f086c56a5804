// Package control runs the control server as it ships, a real process, for benchmarks.
package control

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

// Control is the control server as it ships, keeper and server.
type Control struct {
	Keeper, Server int
	Client         *client.Client
	// Dials counts the connections that were opened.
	Dials atomic.Int32
	// Data is its FLYFLEET_DATA.
	Data string

	address string
	key     token.SigningKey
}

// Start runs bin/flyfleet-controlserver until the benchmark ends, on the disk of the temporary directory.
func Start(b *testing.B) *Control {
	b.Helper()
	return StartIn(b, b.TempDir())
}

// StartIn does so in a directory that is there.
func StartIn(b *testing.B, dir string) *Control {
	b.Helper()
	binary, err := filepath.Abs("../../bin/flyfleet-controlserver")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		b.Fatalf("%v: run make build", err)
	}
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
	c := &Control{Keeper: cmd.Process.Pid, Data: filepath.Join(dir, "data"), key: key}
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
	c.address = c.readLog(b, log, logged)
	c.Client, err = client.New(c.Options())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Client.Close)
	return c
}

// Options make another client of the same server.
func (c *Control) Options() client.Options {
	return client.Options{
		Address: c.address, Scope: scope, Tokens: client.SignWith(c.key, app, machine, scope, scope),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c.Dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
}

// readLog waits for the server's address, and reads on so that the server never waits for us.
func (c *Control) readLog(b *testing.B, log io.Reader, over chan<- struct{}) string {
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var event struct {
			Msg, Address string
			Pid          int
		}
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.Msg == "serving" {
			c.Server = event.Pid
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
