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
	patience := l.patience
	if patience <= 0 {
		patience = 30 * time.Second
	}
	if since.IsZero() {
		*since = time.Now()
	}
	if time.Since(*since) >= patience {
		return seam
	}
	return nil
}

// repeat makes a call that changes nothing when it is repeated, until it is answered or patience is over.
func repeat[A any](ctx context.Context, l *link, call func(context.Context) (A, error)) (A, error) {
	since := time.Time{}
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		answer, err := call(ctx)
		if err == nil {
			return answer, nil
		}
		if err := l.again(ctx, err, &since); err != nil {
			return answer, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return answer, context.Cause(ctx)
		case <-timer.C:
		}
	}
}
