package exchange

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
)

// refusal classifies an answer that is not 200.
func (x *Exchange) refusal(resp *http.Response, text []byte) *model.Error {
	words, message := readRefusal(text)
	if message == "" {
		message = http.StatusText(resp.StatusCode)
	}
	e := x.failure(kindOfStatus(resp.StatusCode), message)
	if kind, known := kindOfCode(words, message); known {
		e.Kind = kind
	}
	// Both providers' SDKs obey this header: the provider knows better whether another try can help.
	if resp.Header.Get("X-Should-Retry") == "false" && e.Retryable() {
		e.Kind = model.Refused
	}
	if e.Retryable() {
		e.RetryAfter = retryAfter(resp.Header)
	}
	return e
}

// InStream classifies an error that came as an event of a stream: a JSON object with a member "error".
func (x *Exchange) InStream(event []byte) *model.Error {
	words, message := readRefusal(event)
	e := x.failure(kindOfType(words), message)
	if kind, known := kindOfCode(words, message); known {
		e.Kind = kind
	}
	return e
}

// readRefusal reads the error objects of both APIs and of servers that come near them: the machine-readable
// words, and the text.
func readRefusal(text []byte) (words []string, message string) {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(text, &outer) != nil {
		return nil, string(text)
	}
	var inner struct {
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(outer.Error, &inner) == nil && inner.Message+inner.Type != "" {
		return []string{inner.Type, strings.Trim(string(inner.Code), `"`)}, inner.Message
	}
	var plain string
	if json.Unmarshal(outer.Error, &plain) == nil && plain != "" {
		return nil, plain
	}
	if outer.Message != "" {
		return nil, outer.Message
	}
	return nil, string(outer.Detail)
}

// kindOfCode knows the words that say more than a status, from Anthropic's and OpenAI's documentation.
func kindOfCode(words []string, message string) (model.ErrorKind, bool) {
	for _, w := range words {
		switch w {
		case "overloaded_error", "server_overloaded":
			return model.Overloaded, true
		case "insufficient_quota", "billing_error", "billing_hard_limit_reached":
			// OpenAI sends it with 429; waiting does not pay the bill.
			return model.Refused, true
		case "authentication_error", "permission_error", "invalid_api_key":
			return model.Auth, true
		case "request_too_large", "context_length_exceeded":
			return model.TooLong, true
		}
	}
	// Anthropic has no code for it, and servers that speak OpenAI's format often leave it out.
	// Assumption: these words stay; a prompt that is too long is otherwise only Refused.
	for _, part := range []string{"prompt is too long", "maximum context length", "exceed context limit"} {
		if strings.Contains(strings.ToLower(message), part) {
			return model.TooLong, true
		}
	}
	return "", false
}

// kindOfType stands for the status where a stream had begun and there is none.
func kindOfType(words []string) model.ErrorKind {
	for _, w := range words {
		switch w {
		case "rate_limit_error", "rate_limit_exceeded":
			return model.RateLimited
		case "timeout_error":
			return model.Timeout
		case "invalid_request_error", "not_found_error":
			return model.Refused
		}
	}
	return model.Server
}

func kindOfStatus(status int) model.ErrorKind {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return model.Auth
	case status == http.StatusTooManyRequests:
		return model.RateLimited
	case status == http.StatusServiceUnavailable, status == 529:
		return model.Overloaded
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return model.Timeout
	case status == http.StatusRequestEntityTooLarge:
		return model.TooLong
	case status == http.StatusConflict, status >= http.StatusInternalServerError:
		// 409 is a lock that was not got in time (both SDKs try it again).
		return model.Server
	case status >= 200 && status < 300:
		return model.BrokenStream
	}
	return model.Refused
}

// maxRetryAfter keeps a silly header from overflowing; model.Backoff gives up long before.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads how long to wait. A date is judged by the provider's own clock, its Date header.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return seconds(ms / 1000)
	}
	text := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return seconds(s)
	}
	until, err := http.ParseTime(text)
	now, err2 := http.ParseTime(h.Get("Date"))
	if err != nil || err2 != nil {
		return 0
	}
	return seconds(until.Sub(now).Seconds())
}

func seconds(s float64) time.Duration {
	if !(s > 0) { // also NaN
		return 0
	}
	return time.Duration(min(s, maxRetryAfter.Seconds()) * float64(time.Second))
}

// keyLike is what providers' keys look like; OpenAI repeats the start and the end of a bad one.
var keyLike = regexp.MustCompile(`\bsk-[A-Za-z0-9_*.-]{4,}|(?i:bearer) +[A-Za-z0-9_*.-]{8,}`)

func mask(text, secret string) string {
	if secret != "" {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return keyLike.ReplaceAllString(text, "***")
}

// clean makes one line of UTF-8 of at most n bytes.
func clean(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.TrimSpace(text)
	if len(text) <= n {
		return text
	}
	cut := n - len("…")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
