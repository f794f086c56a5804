package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
)

// file is the form of the configuration.
type file struct {
	Upstreams map[string]entry `json:"upstreams"`
}

type entry struct {
	URL        string      `json:"url"`
	Credential *Credential `json:"credential"`
	// IdempotencyHeader names the header in which it honours keys; without one nothing is ever sent twice.
	IdempotencyHeader string      `json:"idempotency_header"`
	Policy            string      `json:"policy"`
	Rules             []ruleEntry `json:"rules"`
	Headers           []string    `json:"headers"`
	AnswerHeaders     []string    `json:"answer_headers"`
	MaxRequest        int64       `json:"max_request_bytes"`
	MaxAnswer         int64       `json:"max_answer_bytes"`
	Timeout           string      `json:"timeout"`
}

type ruleEntry struct {
	Methods []string `json:"methods"`
	Path    string   `json:"path"`
	Policy  string   `json:"policy"`
}

// Credential is how a tenant's credential is applied.
type Credential struct {
	// Name under which a submission brings it.
	Name   string `json:"name"`
	Header string `json:"header"`
	// Template of the header's value, with {credential} in it.
	Template string `json:"template"`
}

// Upstream is a service that commands may reach.
type Upstream struct {
	Name string
	// MaxRequest is the most bytes of a request's body.
	MaxRequest int64

	base              *url.URL
	credential        *Credential
	idempotencyHeader string
	policy            journalv1.Policy
	rules             []tools.Rule
	headers           []string
	answerHeaders     []string
	maxAnswer         int64
	timeout           time.Duration
	client            *http.Client
}

// Set is all that are configured. It never changes after it was made.
type Set struct{ byName map[string]*Upstream }

// Get gives one by its name.
func (s *Set) Get(name string) (*Upstream, bool) {
	if s == nil {
		return nil, false
	}
	u, there := s.byName[name]
	return u, there
}

// Names are those of all, in order.
func (s *Set) Names() []string {
	var names []string
	if s != nil {
		for name := range s.byName {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Credential gives the name of an upstream that needs a credential, if there is one.
func (s *Set) Credential() string {
	for _, name := range s.Names() {
		if s.byName[name].credential != nil {
			return name
		}
	}
	return ""
}

// Bounds of what a configuration may say.
const (
	defaultRequest = 1 << 20
	mostRequest    = 8 << 20
	defaultAnswer  = 4 << 20
	mostAnswer     = 16 << 20
	defaultTimeout = time.Minute
	mostTimeout    = 10 * time.Minute
)

var (
	upstreamName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	headerName   = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	methods      = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
)

// ErrBadURL says what a base URL must be.
var ErrBadURL = errors.New("it must be https://host/…, or http:// on a loopback address, without user, query and fragment")

// Parse reads a configuration and checks all of it. No error holds a credential: there is none in it.
func Parse(text []byte) (*Set, error) {
	var f file
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return nil, fmt.Errorf("upstreams: %w", err)
	}
	if len(f.Upstreams) == 0 {
		return nil, errors.New("upstreams: the file names none")
	}
	set := &Set{byName: map[string]*Upstream{}}
	for name, e := range f.Upstreams {
		u, err := newUpstream(name, e)
		if err != nil {
			return nil, fmt.Errorf("upstream %q: %w", name, err)
		}
		set.byName[name] = u
	}
	return set, nil
}

func newUpstream(name string, e entry) (*Upstream, error) {
	if !upstreamName.MatchString(name) {
		return nil, errors.New("a name has 1 to 32 lower-case letters, digits and dashes")
	}
	u := &Upstream{Name: name, client: newClient(e.IdempotencyHeader != "")}
	var err error
	if u.base, err = parseBase(e.URL); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	for _, part := range []func(entry) error{u.setCredential, u.setHeaders, u.setRules, u.setBounds} {
		if err := part(e); err != nil {
			return nil, err
		}
	}
	return u, nil
}

func parseBase(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, ErrBadURL
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, ErrBadURL
	}
	if u.Path = strings.TrimSuffix(u.Path, "/"); u.Path != "" {
		if _, err := Canonical(u.EscapedPath()); err != nil {
			return nil, err
		}
	}
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (u *Upstream) setCredential(e entry) error {
	c := e.Credential
	if c == nil {
		return nil
	}
	switch {
	case c.Name == "":
		return errors.New("credential: it has no name: say under which name submissions bring it")
	case !headerName.MatchString(c.Header) || ours(c.Header) && !strings.EqualFold(c.Header, "Authorization") && !strings.EqualFold(c.Header, "Cookie"):
		return fmt.Errorf("credential: header %q cannot carry it", c.Header)
	case strings.Count(c.Template, placeholder) != 1 || strings.ContainsFunc(c.Template, control):
		return fmt.Errorf("credential: the template must have %s in it, once, and no control characters", placeholder)
	}
	u.credential = c
	return nil
}

// placeholder stands for the credential in a template.
const placeholder = "{credential}"

func (u *Upstream) setHeaders(e entry) error {
	u.idempotencyHeader = e.IdempotencyHeader
	if h := u.idempotencyHeader; h != "" && (!headerName.MatchString(h) || ours(h) && !strings.HasSuffix(strings.ToLower(h), "idempotency-key")) {
		return fmt.Errorf("idempotency_header: %q cannot carry keys", h)
	}
	for _, list := range []struct {
		field string
		from  []string
		to    *[]string
		base  []string
	}{{"headers", e.Headers, &u.headers, requestHeaders}, {"answer_headers", e.AnswerHeaders, &u.answerHeaders, answerHeaders}} {
		*list.to = slices.Clone(list.base)
		for _, h := range list.from {
			carries := u.credential != nil && strings.EqualFold(h, u.credential.Header)
			if !headerName.MatchString(h) || ours(h) || carries || strings.EqualFold(h, u.idempotencyHeader) {
				return fmt.Errorf("%s: %q is not passed on", list.field, h)
			}
			*list.to = append(*list.to, textproto.CanonicalMIMEHeaderKey(h))
		}
	}
	return nil
}

func (u *Upstream) setRules(e entry) error {
	u.policy = journalv1.Policy_POLICY_ASK
	if e.Policy != "" {
		var err error
		if u.policy, err = tools.ParsePolicy(e.Policy); err != nil {
			return err
		}
	}
	for i, r := range e.Rules {
		policy, err := tools.ParsePolicy(r.Policy)
		if err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
		for _, m := range r.Methods {
			if !slices.Contains(methods, m) {
				return fmt.Errorf("rule %d: method %q: write one of %s", i+1, m, strings.Join(methods, ", "))
			}
		}
		match, err := compilePath(r.Methods, r.Path)
		if err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
		u.rules = append(u.rules, tools.Rule{Tool: ToolName(u.Name), Arg: "request", Match: match, Policy: policy})
	}
	return nil
}

func (u *Upstream) setBounds(e entry) error {
	u.MaxRequest, u.maxAnswer, u.timeout = defaultRequest, defaultAnswer, defaultTimeout
	for _, b := range []struct {
		field string
		given int64
		most  int64
		to    *int64
	}{{"max_request_bytes", e.MaxRequest, mostRequest, &u.MaxRequest}, {"max_answer_bytes", e.MaxAnswer, mostAnswer, &u.maxAnswer}} {
		if b.given < 0 || b.given > b.most {
			return fmt.Errorf("%s: at most %d", b.field, b.most)
		}
		if b.given > 0 {
			*b.to = b.given
		}
	}
	if e.Timeout == "" {
		return nil
	}
	d, err := time.ParseDuration(e.Timeout)
	if err != nil || d <= 0 || d > mostTimeout {
		return fmt.Errorf("timeout: write a duration such as 30s, at most %s", mostTimeout)
	}
	u.timeout = d
	return nil
}
