package flyapi

import (
	"log/slog"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/faults"
)

// The pace keeps below the limits that the platform enforces: nothing is refused, although requests arrive closer
// together than they were sent, by up to the time of one request. Without that spare request a first request held up
// by its dial is followed by ones that are too many.
func TestPaceKeepsBelowThePlatformsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		method, path string
		late         time.Duration // of the first request
	}{
		"get":    {http.MethodGet, "/v1/apps/shop/machines/973c86cbda5cb6", 190 * time.Millisecond},
		"action": {http.MethodPost, "/v1/apps/shop/machines/973c86cbda5cb6/metadata/k", 950 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := &limitedPlatform{late: c.late}
				limits.Set(true)
				d := &door{base: limits, flaps: &url.URL{Scheme: "http", Host: "fly"}, pace: newPacer(PaceDocumented), log: slog.New(slog.DiscardHandler)}
				for range 40 {
					req, err := http.NewRequestWithContext(t.Context(), c.method, c.path, http.NoBody)
					if err != nil {
						t.Fatal(err)
					}
					resp, err := d.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
				}
				if limits.asked != 40 || limits.refused != 0 {
					t.Errorf("asked %d times, refused %d times", limits.asked, limits.refused)
				}
			})
		})
	}
}

// limitedPlatform answers as the platform's limits say, and hears its first request late.
type limitedPlatform struct {
	faults.Limits
	late           time.Duration
	asked, refused int
}

func (p *limitedPlatform) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(p.late) // of the bubble
	p.late = 0
	p.asked++
	status := http.StatusOK
	if !p.Allow(req.Method, req.URL.Path) {
		p.refused++
		status = http.StatusTooManyRequests
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Request: req}, nil
}
