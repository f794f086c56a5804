package exchange

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
)

// provider answers with a body that it writes in its own time.
type provider struct {
	headersAfter time.Duration
	write        func(io.Writer)
	writing      sync.WaitGroup
}

func (p *provider) RoundTrip(req *http.Request) (*http.Response, error) {
	r, w := io.Pipe()
	context.AfterFunc(req.Context(), func() { _ = w.CloseWithError(req.Context().Err()) })
	p.writing.Go(func() {
		p.write(w)
		_ = w.Close()
	})
	select {
	case <-req.Context().Done():
		return nil, req.Context().Err()
	case <-time.After(p.headersAfter):
	}
	header := http.Header{"Content-Type": {"text/event-stream"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: r, Request: req}, nil
}

// call sends one request and reads the answer, with a pause of the reader after each read.
func call(t *testing.T, limits model.Limits, pause time.Duration, p *provider) (string, error) {
	defer p.writing.Wait()
	ctx, x, err := Begin(t.Context(), "p", func(context.Context) (string, error) { return "key", nil }, limits)
	if err != nil {
		t.Fatal(err)
	}
	defer x.End()
	x.http.Transport = p
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://provider.test/", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := x.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var got strings.Builder
	buf := make([]byte, 10)
	for {
		n, err := resp.Body.Read(buf)
		got.Write(buf[:n])
		if err == io.EOF {
			return got.String(), nil
		}
		if err != nil {
			return got.String(), x.Failed(err)
		}
		time.Sleep(pause) // of the bubble's clock
	}
}

func kind(t *testing.T, err error) model.ErrorKind {
	t.Helper()
	var e *model.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *model.Error", err)
	}
	return e.Kind
}

var limits = model.Limits{FirstByte: time.Minute, Idle: 10 * time.Second}

// withastro/flue#538, by the clock: silence is cut at its limit, not before and not never.
func TestSilenceIsCut(t *testing.T) {
	for name, c := range map[string]struct {
		headers, first, gap time.Duration
		cut                 bool
	}{
		"slow but alive":     {30 * time.Second, 29 * time.Second, 9 * time.Second, false},
		"no headers":         {61 * time.Second, 0, 0, true},
		"no first byte":      {0, 61 * time.Second, 0, true},
		"silent in between":  {0, 0, 11 * time.Second, true},
		"long first thought": {0, 59 * time.Second, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := call(t, limits, 0, &provider{headersAfter: c.headers, write: func(w io.Writer) {
					time.Sleep(c.headers + c.first)
					for range 20 {
						if _, err := io.WriteString(w, ":\n"); err != nil {
							return
						}
						time.Sleep(c.gap)
					}
				}})
				if !c.cut && (err != nil || len(got) != 40) {
					t.Errorf("%q, %v", got, err)
				}
				if c.cut && kind(t, err) != model.Timeout {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// What a viewer takes its time for is not the provider's silence.
func TestSlowReaderIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := call(t, limits, time.Hour, &provider{write: func(w io.Writer) {
			_, _ = io.WriteString(w, strings.Repeat("0123456789", 5))
		}})
		if err != nil || len(got) != 50 {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestSizeLimitIsExact(t *testing.T) {
	for size, ok := range map[int]bool{99: true, 100: true, 101: false} {
		synctest.Test(t, func(t *testing.T) {
			l := limits
			l.Bytes = 100
			_, err := call(t, l, 0, &provider{write: func(w io.Writer) {
				_, _ = io.WriteString(w, strings.Repeat("x", size))
			}})
			if ok != (err == nil) || !ok && kind(t, err) != model.Refused {
				t.Errorf("%d bytes: %v", size, err)
			}
		})
	}
}

func TestCleanCutsBetweenCharacters(t *testing.T) {
	for n := 4; n < 40; n++ {
		got := clean("\x00ab\ncd\xffé"+strings.Repeat("😀", 20), n)
		if len(got) > n || strings.ToValidUTF8(got, "") != got || strings.ContainsAny(got, "\x00\n") {
			t.Errorf("clean to %d: %q", n, got)
		}
	}
}

func TestMaskKnowsKeys(t *testing.T) {
	for in, want := range map[string]string{
		"bad my own secret!":                     "bad ***!",
		"Incorrect API key: sk-proj-ab*****wxyz": "Incorrect API key: ***",
		"sent bearer abcdefghij":                 "sent ***",
		"a risk-taking key-value store is fine":  "a risk-taking key-value store is fine",
	} {
		if got := mask(in, "my own secret"); got != want {
			t.Errorf("mask(%q) = %q", in, got)
		}
	}
}
