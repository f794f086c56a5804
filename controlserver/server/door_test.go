//go:build linux

package server

import (
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func TestFullHouseIsARetryableRefusal(t *testing.T) {
	d := &door{now: time.Now, most: 2}
	for range 2 {
		if err := d.enter(); err != nil {
			t.Fatal(err)
		}
	}
	refusal, ok := wire.AsError(d.enter())
	if !ok || refusal.Reason != wirev1.ErrorReason_ERROR_REASON_TOO_MANY || !refusal.Retryable || refusal.RetryAfter <= 0 {
		t.Fatalf("got %v", refusal)
	}
	d.leave()
	if err := d.enter(); err != nil {
		t.Fatalf("with room again: %v", err)
	}
}
