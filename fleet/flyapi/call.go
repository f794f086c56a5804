package flyapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// callTimeout is the deadline of one try of a call that answers at once.
const callTimeout = 30 * time.Second

// request is one call of the raw layer.
type request struct {
	op           string
	app, machine string
	graphql      bool
	method, path string // path from the root, already escaped segment by segment
	query        url.Values
	body         []byte // sent as it is
	nonce        string
	idempotent   bool          // asking twice is as good as asking once; else the caller looks before it asks again
	waitsFor     time.Duration // how long the server may hold the answer back
	concurrent   bool          // repeat a 409 "concurrent update"
}

// response is an answer with a status of success.
type response struct {
	status int
	header http.Header
	body   []byte
}

const (
	gatewayTries    = 4
	concurrentTries = 6
)

// call sends r, repeats what may be repeated, and returns an *Error for everything but success.
func (c *Client) call(ctx context.Context, r request) (response, error) {
	gateway, concurrent := 1, 1
	for {
		resp, err := c.try(ctx, r)
		switch {
		case err == nil:
			return resp, nil
		case ctx.Err() != nil:
			return response{}, err
		case r.idempotent && unsure(err) && gateway < gatewayTries:
			if sleep(ctx, backoff(gateway)) != nil {
				return response{}, err
			}
			if gateway++; errors.Is(err, context.DeadlineExceeded) {
				gateway++ // a server that hangs is given less patience than one that answers
			}
		case r.concurrent && IsConcurrentUpdate(err) && concurrent < concurrentTries:
			if sleep(ctx, backoff(concurrent)) != nil {
				return response{}, err
			}
			concurrent++
		default:
			return response{}, err
		}
	}
}

func (c *Client) try(ctx context.Context, r request) (response, error) {
	// One's turn is waited for outside the deadline of the call: fifty creates in one app take fifty seconds.
	if err := c.door.pace.wait(ctx, r.method, r.path); err != nil {
		return response{}, c.noAnswer(ctx, r, err)
	}
	tctx, cancel := context.WithTimeout(ctx, callTimeout+r.waitsFor)
	defer cancel()
	req, err := c.build(context.WithValue(tctx, pacedKey{}, true), r)
	if err != nil {
		return response{}, &Error{Op: r.op, App: r.app, Machine: r.machine, Text: "build the request", Err: err}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return response{}, c.noAnswer(ctx, r, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return response{}, c.noAnswer(ctx, r, err)
	}
	if resp.StatusCode > 299 {
		return response{}, answerError(r, resp.StatusCode, resp.Header, body)
	}
	return response{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

func (c *Client) build(ctx context.Context, r request) (*http.Request, error) {
	base := c.flaps.String() + r.path
	if r.graphql {
		base = c.graphql.String()
	}
	if len(r.query) > 0 {
		base += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, base, body)
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", c.agent)
	if r.graphql {
		req.Header.Set("Authorization", c.tokens.GraphQLHeader())
	} else {
		req.Header.Set("Authorization", c.tokens.FlapsHeader())
	}
	if r.nonce != "" {
		req.Header.Set("fly-machine-lease-nonce", r.nonce)
	}
	return req, nil
}

// decode reads an answer into out; a body that is not what was promised is an error that names the call.
func decode(r request, resp response, out any) error {
	if err := json.Unmarshal(resp.body, out); err != nil {
		return &Error{Op: r.op, App: r.app, Machine: r.machine, Text: "read the answer", Err: err, RequestID: resp.header.Get(headerRequestID)}
	}
	return nil
}

func appPath(app string, rest ...string) string {
	return join("/v1/apps", append([]string{app}, rest...)...)
}

func machinePath(app, id string, rest ...string) string {
	return appPath(app, append([]string{"machines", id}, rest...)...)
}

// join escapes each part, so that no name can reach another path.
func join(base string, part ...string) string {
	for _, p := range part {
		base += "/" + url.PathEscape(p)
	}
	return base
}
