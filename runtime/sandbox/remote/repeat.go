package remote

import (
	"context"
	"errors"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// again says whether a failed call may be repeated: nil while the connection is broken no longer than patience allows.
func (l *link) again(ctx context.Context, err error, since *time.Time) error {
	seam := failure(ctx, err)
	var unavailable *sandbox.UnavailableError
	if !errors.As(seam, &unavailable) || unavailable.Refused || ctx.Err() != nil {
		return seam
	}
	if since.IsZero() {
		*since = time.Now()
	}
	if time.Since(*since) >= l.patience {
		return seam
	}
	return nil
}

// repeat makes a call that changes nothing when it is repeated, until it is answered or patience is over.
func repeat[A any](ctx context.Context, l *link, call func(context.Context) (A, error)) (A, error) {
	since := time.Time{}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		answer, err := call(ctx)
		if err == nil {
			return answer, nil
		}
		if err := l.again(ctx, err, &since); err != nil {
			return answer, err
		}
		if err := pause(ctx, wait); err != nil {
			return answer, err
		}
	}
}

// pause waits, or returns why the context has ended meanwhile.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
