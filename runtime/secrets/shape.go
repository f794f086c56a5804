package secrets

import (
	"bytes"
)

// shape is how keys of a kind look: a prefix that nothing else has, then characters of a set, at least so many. The
// prefixes are those that the issuers document.
type shape struct {
	prefix string
	set    *set
	least  int
	// word: it begins where a word begins, so that "task-…" is no "sk-…".
	word bool
	// judge says which part of the prefix and its run is secret; nil: all.
	judge func(run []byte) (from, to int)
	// end ends a shape that may hold any byte; set is then nil.
	end string
}

type set [256]bool

func characters(special string) *set {
	s := new(set)
	for c := range 256 {
		if b := byte(c); b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' {
			s[c] = true
		}
	}
	for _, c := range []byte(special) {
		s[c] = true
	}
	return s
}

var (
	alnum     = characters("")
	wordChars = characters("_")
	dashed    = characters("_-")
	token     = characters("_-.")
	macaroon  = characters("_-.+/=,")
	userinfo  = characters("-._~!$&'()*+,;=%:@")
)

var shapes = []shape{
	{prefix: "sk-", set: dashed, least: 20, word: true, judge: withDigit},
	{prefix: "sk_live_", set: wordChars, least: 16, word: true},
	{prefix: "sk_test_", set: wordChars, least: 16, word: true},
	{prefix: "rk_live_", set: wordChars, least: 16, word: true},
	{prefix: "whsec_", set: macaroon, least: 20, word: true},
	{prefix: "ghp_", set: alnum, least: 30, word: true},
	{prefix: "gho_", set: alnum, least: 30, word: true},
	{prefix: "ghu_", set: alnum, least: 30, word: true},
	{prefix: "ghs_", set: alnum, least: 30, word: true},
	{prefix: "ghr_", set: alnum, least: 30, word: true},
	{prefix: "github_pat_", set: wordChars, least: 40, word: true},
	{prefix: "glpat-", set: dashed, least: 20, word: true},
	{prefix: "xoxb-", set: dashed, least: 20, word: true},
	{prefix: "xoxp-", set: dashed, least: 20, word: true},
	{prefix: "xoxa-", set: dashed, least: 20, word: true},
	{prefix: "xoxs-", set: dashed, least: 20, word: true},
	{prefix: "xapp-", set: dashed, least: 20, word: true},
	{prefix: "AKIA", set: alnum, least: 16, word: true},
	{prefix: "ASIA", set: alnum, least: 16, word: true},
	{prefix: "AIza", set: dashed, least: 35, word: true},
	{prefix: "npm_", set: alnum, least: 36, word: true},
	{prefix: "pypi-", set: dashed, least: 50, word: true},
	{prefix: "hf_", set: alnum, least: 30, word: true},
	{prefix: "fo1_", set: macaroon, least: 20, word: true},
	{prefix: "fm1r_", set: macaroon, least: 20, word: true},
	{prefix: "fm1a_", set: macaroon, least: 20, word: true},
	{prefix: "fm2_", set: macaroon, least: 20, word: true},
	{prefix: "FlyV1 ", set: macaroon, least: 20, word: true},
	{prefix: "ffroot1.", set: token, least: 20, word: true},
	{prefix: "ffsign1.", set: token, least: 20, word: true},
	{prefix: "ffm1.", set: token, least: 40, word: true},
	{prefix: "Bearer ", set: macaroon, least: 20, word: true},
	{prefix: "bearer ", set: macaroon, least: 20, word: true},
	{prefix: "eyJ", set: token, least: 20, word: true, judge: jwt},
	{prefix: "://", set: userinfo, least: 3, judge: password},
	{prefix: "-----BEGIN ", end: "PRIVATE KEY-----"},
}

var shapesBy = func() [256][]*shape {
	var by [256][]*shape
	for i := range shapes {
		first := shapes[i].prefix[0]
		by[first] = append(by[first], &shapes[i])
	}
	return by
}()

// match looks for the shape at the beginning of a text.
func (s *shape) match(text []byte, closing bool) span {
	n := min(len(s.prefix), len(text))
	if string(text[:n]) != s.prefix[:n] {
		return span{}
	}
	if n < len(s.prefix) {
		return span{undecided: !closing}
	}
	if s.end != "" {
		return s.matchBlock(text, closing)
	}
	run := n
	for run < len(text) && run < MaxSecret && s.set[text[run]] {
		run++
	}
	if run == len(text) && run < MaxSecret && !closing {
		return span{undecided: true}
	}
	if run-n < s.least {
		return span{}
	}
	if s.judge == nil {
		return span{to: run}
	}
	from, to := s.judge(text[:run])
	return span{from: from, to: to}
}

// firstLine bounds the first line of a key block.
const firstLine = 80

// matchBlock finds "-----BEGIN … PRIVATE KEY-----" and masks up to the end of the second such line.
func (s *shape) matchBlock(text []byte, closing bool) span {
	head := text[:min(len(text), firstLine)]
	// A line that ends before it says PRIVATE KEY begins something else, such as a certificate.
	line, _, whole := bytes.Cut(head[len(s.prefix):], []byte("-----"))
	switch {
	case bytes.ContainsAny(line, "\r\n"), whole && !bytes.HasSuffix(line, []byte("PRIVATE KEY")), !whole && len(head) == firstLine:
		return span{}
	case !whole:
		return span{undecided: !closing}
	}
	first := len(s.prefix) + len(line) + len("-----")
	body := text[first:min(len(text), MaxSecret)]
	if end := bytes.Index(body, []byte(s.end)); end >= 0 {
		return span{to: first + end + len(s.end)}
	}
	if first+len(body) < MaxSecret && !closing {
		return span{undecided: true}
	}
	return span{to: first + len(body)}
}

// withDigit: names of files have no digits as a rule, keys do.
func withDigit(run []byte) (from, to int) {
	if bytes.ContainsAny(run, "0123456789") {
		return 0, len(run)
	}
	return 0, 0
}

// jwt has three parts, and the second is an object too.
func jwt(run []byte) (from, to int) {
	run = bytes.TrimRight(run, ".")
	parts := bytes.SplitN(run, []byte("."), 4)
	if len(parts) < 3 || !bytes.HasPrefix(parts[1], []byte("eyJ")) {
		return 0, 0
	}
	return 0, len(parts[0]) + len(parts[1]) + len(parts[2]) + 2
}

// password of "://user:password@host".
func password(run []byte) (from, to int) {
	at := bytes.LastIndexByte(run, '@')
	colon := bytes.IndexByte(run[len("://"):], ':') + len("://")
	if at < 0 || colon < len("://") || colon+1 >= at {
		return 0, 0
	}
	return colon + 1, at
}
