//go:build linux

package controlserver_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// listenEnv makes the test binary a server, for commands of tests: it listens, writes its port into the
// file named, and stays.
const listenEnv = "FLYFLEET_TEST_LISTEN"

func TestMain(m *testing.M) {
	if file := os.Getenv(listenEnv); file != "" {
		os.Exit(listenMain(file))
	}
	machinetest.Main(m)
}

func listenMain(file string) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		_, port, _ := net.SplitHostPort(l.Addr().String())
		err = os.WriteFile(file, []byte(port+"\n"), 0o600)
	}
	for err == nil {
		_, err = l.Accept()
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// copyProgram puts the test binary where a command can run it.
func copyProgram(t *testing.T, path string) {
	t.Helper()
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
}

// shell is the spec of a script run by sh.
func shell(script string, args ...string) *wirev1.ExecSpec {
	argv := [][]byte{[]byte("sh"), []byte("-c"), []byte(script), []byte("sh")}
	for _, a := range args {
		argv = append(argv, []byte(a))
	}
	return &wirev1.ExecSpec{Argv: argv}
}

// limited is a context for what takes moments; two minutes are for machines under load.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// ran is what a command printed and how it ended.
type ran struct {
	client.Result
	stdout, stderr string
}

// run runs a command to its end; any failure of the wire is the test's.
func run(t *testing.T, c *client.Client, spec *wirev1.ExecSpec) ran {
	t.Helper()
	var out, err bytes.Buffer
	result, failed := c.Run(limited(t), client.Command{Spec: spec}, client.Writers(&out, &err))
	if failed != nil {
		t.Fatalf("run: %v", failed)
	}
	if result.Exit == nil {
		t.Fatalf("run: no exit but %v", result.Lost)
	}
	return ran{result, out.String(), err.String()}
}

func TestOutputAndCodeOfACommandArrive(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	got := run(t, c, shell("echo out; echo err >&2; exit 7"))
	if got.stdout != "out\n" || got.stderr != "err\n" || got.Exit.GetCode() != 7 {
		t.Fatalf("got %q, %q, %v", got.stdout, got.stderr, got.Exit)
	}
}
