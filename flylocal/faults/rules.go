// Package faults disturbs the platform on request and remembers what was asked of it, so that tests can make a call
// fail and can assert which calls were made, and which were not. Everything is reached under /_flylocal/, never
// under a path of Fly's.
package faults

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Rule answers the next calls that match it in place of the platform.
type Rule struct {
	// Method is an HTTP method; empty takes all.
	Method string `json:"method"`
	// Path is matched against the URL's path: "*" stands for anything but a slash, "**" for anything. Empty takes all
	// paths but /_flylocal.
	Path string `json:"path"`
	// Contains is a text that the request's body must hold, such as the name of a GraphQL mutation; empty takes all.
	Contains string `json:"contains"`
	// Times is how many calls are answered so; zero means one, a negative number all.
	Times int `json:"times"`
	// Status and Body are the answer. Zero keeps the platform's own, which makes sense with DelayMS or Drop.
	Status int               `json:"status"`
	Body   string            `json:"body"`
	Header map[string]string `json:"header"`
	// DelayMS holds the answer back.
	DelayMS int `json:"delay_ms"`
	// Execute carries the call out before the answer is replaced: the answer is lost, the effect is not.
	Execute bool `json:"execute"`
	// Drop cuts the connection in place of an answer.
	Drop bool `json:"drop"`
}

type liveRule struct {
	Rule
	path *regexp.Regexp
	left int
}

// Rules holds the rules in force. It is safe for concurrent use.
type Rules struct {
	mu    sync.Mutex
	rules []*liveRule
}

// Add puts a rule in force; of several that match, the oldest is used up first.
func (r *Rules) Add(rule Rule) error {
	if rule.Status != 0 && (rule.Status < 100 || rule.Status > 599) {
		return fmt.Errorf("status %d is not an HTTP status", rule.Status)
	}
	path, err := glob(rule.Path)
	if err != nil {
		return fmt.Errorf("path %q: %w", rule.Path, err)
	}
	if rule.Times == 0 {
		rule.Times = 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = append(r.rules, &liveRule{Rule: rule, path: path, left: rule.Times})
	return nil
}

// Clear drops all rules.
func (r *Rules) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = nil
}

func glob(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		pattern = "**"
	}
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.ReplaceAll(quoted, `\*\*`, `.*`)
	quoted = strings.ReplaceAll(quoted, `\*`, `[^/]*`)
	return regexp.Compile("^" + quoted + "$")
}

// match uses up one turn of the first rule that fits.
func (r *Rules) match(method, path string, body []byte) (Rule, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, rule := range r.rules {
		if rule.Method != "" && !strings.EqualFold(rule.Method, method) || !rule.path.MatchString(path) ||
			!bytes.Contains(body, []byte(rule.Contains)) {
			continue
		}
		if rule.left > 0 {
			if rule.left--; rule.left == 0 {
				r.rules = append(r.rules[:i:i], r.rules[i+1:]...)
			}
		}
		return rule.Rule, true
	}
	return Rule{}, false
}

// answer gives a rule's answer.
func (rule Rule) answer(w http.ResponseWriter, req *http.Request, next http.Handler) {
	if rule.DelayMS > 0 {
		timer := time.NewTimer(time.Duration(rule.DelayMS) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
			return
		}
	}
	if rule.Status == 0 && !rule.Drop {
		next.ServeHTTP(w, req)
		return
	}
	if rule.Execute {
		next.ServeHTTP(httptest.NewRecorder(), req)
	} else if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body) // An unread body would cost the client its connection.
	}
	if rule.Drop {
		drop(w)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json; charset=utf-8")
	for name, value := range rule.Header {
		header.Set(name, value)
	}
	w.WriteHeader(rule.Status)
	_, _ = io.WriteString(w, rule.Body) // The client has gone; nobody is left to tell.
}

func drop(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		conn.Close()
	}
}
