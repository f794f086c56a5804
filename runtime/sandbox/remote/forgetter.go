package remote

import (
	"context"
	"log/slog"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
)

// forgetter tells the machine, behind the callers' backs, which answers it need not keep. An answer that is not forgotten goes by itself
// after a week, so what does not fit into the queue, or fails, is let be.
type forgetter struct {
	client *client.Client
	log    *slog.Logger
	ids    chan string
	stop   context.CancelFunc
	done   chan struct{}
}

const (
	forgetQueue = 1024
	forgetTime  = 5 * time.Second
)

func newForgetter(c *client.Client, log *slog.Logger) *forgetter {
	ctx, stop := context.WithCancel(context.Background()) //nolint:gosec // close calls it
	f := &forgetter{client: c, log: log, ids: make(chan string, forgetQueue), stop: stop, done: make(chan struct{})}
	go f.run(ctx)
	return f
}

func (f *forgetter) run(ctx context.Context) {
	defer close(f.done)
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-f.ids:
			limited, cancel := context.WithTimeout(ctx, forgetTime)
			if _, err := f.client.Forget(limited, id); err != nil {
				f.log.Debug("an answer is not forgotten", "exec", id, "error", err)
			}
			cancel()
		}
	}
}

func (f *forgetter) add(id string) {
	select {
	case f.ids <- id:
	default:
		f.log.Debug("an answer is not forgotten: too many wait for it", "exec", id)
	}
}

func (f *forgetter) close() {
	f.stop()
	<-f.done
}
