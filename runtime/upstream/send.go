package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
)

// newClient makes the client of an upstream. Unless it honours keys, each call has a connection of its own: the transport sends some
// requests again by itself when a connection that was used before turns out to be dead.
func newClient(keyed bool) *http.Client {
	transport, is := http.DefaultTransport.(*http.Transport)
	if !is {
		transport = &http.Transport{}
	}
	transport = transport.Clone()
	transport.MaxResponseHeaderBytes = 256 << 10
	transport.DisableKeepAlives = !keyed
	return &http.Client{
		Transport: transport,
		// A redirect would carry the credential to where it does not belong.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

const (
	// keyedTries is how often a call under a key is sent when its answer is lost.
	keyedTries = 3
	keyedPause = 200 * time.Millisecond
)

func failed(format string, args ...any) (tools.Result, error) {
	return tools.Result{Content: fmt.Appendf(nil, format, args...), Failed: true}, nil
}

// run sends one call, and again only under a key.
func (u *Upstream) run(ctx context.Context, call tools.Call) (tools.Result, error) {
	r, err := u.read(call.Args, call.Body)
	if err != nil {
		return failed("It was not sent: %v.", err)
	}
	value, err := u.credentialOf(ctx, call)
	if err != nil {
		if ctx.Err() != nil {
			return tools.Result{}, context.Cause(ctx)
		}
		return failed("It was not sent: %v.", err)
	}
	limited, cancel := context.WithTimeout(ctx, u.timeout)
	defer cancel()
	mask := secrets.NewExactRedactor(value)
	for try := 1; ; try++ {
		answer, sent, err := u.send(limited, r, value, call.Key, mask)
		switch {
		case err == nil:
			return u.result(answer)
		case ctx.Err() != nil:
			return tools.Result{}, context.Cause(ctx)
		case errors.Is(err, errAnswer):
			return failed("It was sent, and %v.", err)
		}
		// The text of an error may hold what was sent.
		why, _ := mask.Redact([]byte(reason(err)))
		if !sent && (call.Key == "" || !call.Resumed && try == 1) {
			return failed("It was not sent: %s cannot be reached: %s.", u.Name, why)
		}
		if call.Key == "" || try == keyedTries || limited.Err() != nil {
			return tools.Result{Unknown: true, Failed: true, Content: fmt.Appendf(nil,
				"Unknown: it was sent to %s, and no answer came: %s. It may have happened, or may not. It was not repeated. Check before you do it again.", u.Name, why)}, nil
		}
		select {
		case <-time.After(keyedPause << try):
		case <-limited.Done():
		}
	}
}

// reason is an error of the client without its URL.
func reason(err error) string {
	wrapped := new(url.Error)
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it took too long"
	}
	return err.Error()
}

func (u *Upstream) credentialOf(ctx context.Context, call tools.Call) (string, error) {
	if u.credential == nil {
		return "", nil
	}
	missing := fmt.Errorf("the submission brought no credential %q", u.credential.Name)
	if call.Credential == nil {
		return "", missing
	}
	value, there, err := call.Credential(ctx, u.credential.Name)
	switch {
	case err != nil:
		// Its own error is for the log, not for a command.
		return "", fmt.Errorf("credential %q cannot be read now", u.credential.Name)
	case !there || value == "":
		return "", missing
	case strings.ContainsFunc(value, control):
		return "", fmt.Errorf("credential %q has characters that no header takes", u.credential.Name)
	}
	return value, nil
}

// errAnswer: there was an answer, and it cannot be passed on.
var errAnswer = errors.New("the answer cannot be passed on")

// send sends once. sent: it may have reached the upstream.
func (u *Upstream) send(ctx context.Context, r Request, credential, key string, mask *secrets.Redactor) (answer Answer, sent bool, err error) {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	target := *u.base
	escaped := u.base.EscapedPath() + r.Path
	if target.Path, err = url.PathUnescape(escaped); err != nil {
		return Answer{}, false, err
	}
	target.RawPath, target.RawQuery = escaped, r.Query
	request, err := http.NewRequestWithContext(ctx, r.Method, target.String(), bytes.NewReader(r.Body))
	if err != nil {
		return Answer{}, false, err
	}
	for name, value := range r.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("User-Agent", "flyfleet-runtime")
	if key != "" {
		request.Header.Set(u.idempotencyHeader, key)
	}
	if u.credential != nil {
		request.Header.Set(u.credential.Header, strings.Replace(u.credential.Template, placeholder, credential, 1))
	}
	response, err := u.client.Do(request)
	if err != nil {
		return Answer{}, connected.Load(), err
	}
	defer response.Body.Close()
	answer, err = u.receive(response, mask)
	return answer, true, err
}

// receive reads an answer within its bounds. What of it is the credential is masked: some services show a caller his own
// request.
func (u *Upstream) receive(response *http.Response, mask *secrets.Redactor) (Answer, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, u.maxAnswer+1))
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("read the answer: %w", err)
	case int64(len(body)) > u.maxAnswer:
		return Answer{}, fmt.Errorf("%w: HTTP %d, and it has more than %d bytes", errAnswer, response.StatusCode, u.maxAnswer)
	case response.Header.Get("Content-Encoding") != "":
		return Answer{}, fmt.Errorf("%w: HTTP %d, and its encoding was not asked for", errAnswer, response.StatusCode)
	case response.StatusCode < 200 || response.StatusCode > 599:
		return Answer{}, fmt.Errorf("%w: HTTP %d", errAnswer, response.StatusCode)
	}
	answer := Answer{Status: response.StatusCode, Headers: map[string]string{}}
	answer.Body, _ = mask.Redact(body)
	for name, value := range pick(response.Header, u.answerHeaders) {
		clean, _ := mask.Redact([]byte(value))
		answer.Headers[name] = string(clean)
	}
	return answer, nil
}

func (u *Upstream) result(answer Answer) (tools.Result, error) {
	data, err := answer.Encode()
	if err != nil {
		return tools.Result{}, err
	}
	kind := answer.Headers["Content-Type"]
	if kind == "" {
		kind = "no type"
	}
	return tools.Result{
		Content: fmt.Appendf(nil, "HTTP %d, %d bytes, %s", answer.Status, len(answer.Body), kind),
		Failed:  answer.Status >= http.StatusBadRequest, Answer: data,
	}, nil
}
