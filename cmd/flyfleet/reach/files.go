package reach

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/remote"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

const (
	// wait is how long a machine that is swapped or stopping is waited for.
	wait = time.Minute
	// mostForgotten bounds the commands that have ended and wait for being forgotten; those beyond are kept by the machine for its time.
	mostForgotten = 256
	// forgetting is how long one may take.
	forgetting = 5 * time.Second
)

// Files are a machine's, by its sandbox. Relative names start at the workspace.
type Files struct {
	*Machine

	Box    *remote.Sandbox
	road   *client.Road // of the Machine and the Box's commands
	ids    chan string
	worker sync.WaitGroup
}

// OpenFiles is Open for verbs that work on files. Close it.
func OpenFiles(ctx context.Context, s *settings.Settings, app, id string) (*Files, error) {
	options, found, err := way(ctx, s, app, id)
	if err != nil {
		return nil, err
	}
	options.Road = client.NewRoad(options.Dial)
	m, err := open(options, app, found)
	if err != nil {
		return nil, err
	}
	dir, id, err := workspace(ctx, m.Client)
	if err != nil {
		options.Road.Close()
		return nil, m.Failed(err, "", false)
	}
	box, err := remote.New(remote.Options{Machine: options, Dir: dir, Wait: wait, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		options.Road.Close()
		return nil, err
	}
	f := &Files{Machine: m, Box: box, road: options.Road, ids: make(chan string, mostForgotten)}
	f.ids <- id
	f.worker.Go(func() { f.forget(context.WithoutCancel(ctx)) })
	return f, nil
}

// workspace asks where commands start: not every machine has it at /workspace. It returns the id of the command that told.
func workspace(ctx context.Context, wc *client.Client) (dir, id string, err error) {
	var out bytes.Buffer
	spec := &wirev1.ExecSpec{Argv: [][]byte{[]byte("sh"), []byte("-c"), []byte("pwd")}}
	r, err := wc.Run(ctx, client.Command{Spec: spec, Follow: client.Follow{Wait: wait, TermOnCancel: true}}, client.Writers(&out, nil))
	if err != nil {
		return "", r.ID, err
	}
	dir = strings.TrimSuffix(out.String(), "\n")
	if r.Exit.GetCode() != 0 || dir == "" {
		return "", r.ID, fmt.Errorf("the machine does not tell its workspace: %s", r.Exit.GetMessage())
	}
	return dir, r.ID, nil
}

// Forget drops what the machine keeps of a command that has ended, some time before Close returns.
func (f *Files) Forget(id string) {
	select {
	case f.ids <- id:
	default:
	}
}

func (f *Files) forget(ctx context.Context) {
	for id := range f.ids {
		limited, end := context.WithTimeout(ctx, forgetting)
		_, _ = f.Machine.Forget(limited, id) // what is not forgotten goes by its age
		end()
	}
}

// Close waits for what is to be forgotten and drops the connections.
func (f *Files) Close() {
	close(f.ids)
	f.worker.Wait()
	f.Box.Close()
	f.Machine.Close()
	f.road.Close()
}
