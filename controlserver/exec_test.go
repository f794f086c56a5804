//go:build linux

package controlserver_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func TestMain(m *testing.M) { machinetest.Main(m) }

// shell is the spec of a script run by sh.
func shell(script string, args ...string) *wirev1.ExecSpec {
	argv := [][]byte{[]byte("sh"), []byte("-c"), []byte(script), []byte("sh")}
	for _, a := range args {
		argv = append(argv, []byte(a))
	}
	return &wirev1.ExecSpec{Argv: argv}
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
