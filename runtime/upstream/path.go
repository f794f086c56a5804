package upstream

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// maxPath bounds a path and a query, in bytes.
const maxPath = 8 << 10

var errPath = errors.New("the path is not plain: it may have no empty, . or .. parts, and no control characters")

// Canonical gives a path, as it came with its escapes, in the one spelling that rules see and that is sent: it begins with a
// slash, and each part is escaped as little as can be. A path that a server could read in two ways is an error.
func Canonical(escaped string) (string, error) {
	if len(escaped) > maxPath {
		return "", fmt.Errorf("the path has more than %d bytes", maxPath)
	}
	parts := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	for i, part := range parts {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return "", errPath
		}
		last := i == len(parts)-1
		if plain == "" && !last || !tame(plain) {
			return "", errPath
		}
		parts[i] = url.PathEscape(plain)
	}
	return "/" + strings.Join(parts, "/"), nil
}

// tame: no server takes it for a way up, or for the end of something.
func tame(part string) bool {
	for _, piece := range strings.FieldsFunc(part, func(r rune) bool { return r == '/' || r == '\\' || r == ';' }) {
		if trimmed := strings.TrimSpace(piece); trimmed == "." || trimmed == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(part, control)
}

func control(r rune) bool { return r < 0x20 || r == 0x7f }

// compilePath makes a pattern of the text "METHOD /path" that a rule looks at. * stands for a part of the path, ** for any
// number of parts, none included.
func compilePath(methods []string, pattern string) (*regexp.Regexp, error) {
	rest, rooted := strings.CutPrefix(pattern, "/")
	if !rooted {
		return nil, fmt.Errorf("path %q: it begins with a slash", pattern)
	}
	var b strings.Builder
	b.WriteString("^")
	if len(methods) == 0 {
		b.WriteString("[A-Z]+ ")
	} else {
		b.WriteString("(?:" + strings.Join(methods, "|") + ") ")
	}
	for i, part := range strings.Split(rest, "/") {
		switch {
		case part == "**":
			b.WriteString("(?:/[^/]*)*")
		case part == "*":
			b.WriteString("/[^/]+")
		case strings.Contains(part, "*"):
			return nil, fmt.Errorf("path %q: * and ** stand for whole parts", pattern)
		case part == "" && i > 0 && i < strings.Count(rest, "/"):
			return nil, fmt.Errorf("path %q: it has an empty part", pattern)
		default:
			plain, err := Canonical("/" + part)
			if err != nil {
				return nil, fmt.Errorf("path %q: %w", pattern, err)
			}
			b.WriteString(regexp.QuoteMeta(plain))
		}
	}
	b.WriteString("$")
	return regexp.Compile(b.String())
}
