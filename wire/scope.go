package wire

import (
	"fmt"
	"strings"
)

// MaxScopeBytes bounds a scope's length.
const MaxScopeBytes = 200

// CheckScope says whether a scope is well formed: one to eight segments of letters, digits and `._:@-`,
// joined by '/', at most MaxScopeBytes long, no segment empty, "." or "..". Scopes are compared byte
// for byte: "s/a" does not contain "s/a/b".
func CheckScope(scope string) error {
	if scope == "" {
		return &FieldError{Field: "scope", Problem: "is empty"}
	}
	if len(scope) > MaxScopeBytes {
		return &FieldError{Field: "scope", Problem: fmt.Sprintf("is longer than %d bytes", MaxScopeBytes)}
	}
	segments := strings.Split(scope, "/")
	if len(segments) > 8 {
		return &FieldError{Field: "scope", Problem: "has more than 8 segments"}
	}
	for _, s := range segments {
		if s == "" || s == "." || s == ".." {
			return &FieldError{Field: "scope", Problem: `has a segment that is empty, "." or ".."`}
		}
		for i := 0; i < len(s); i++ {
			if !scopeByte(s[i]) {
				return &FieldError{Field: "scope", Problem: "holds a character other than letters, digits, '/' and '._:@-'"}
			}
		}
	}
	return nil
}

func scopeByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("._:@-", c) >= 0
}

// OperatorScope says whether scope belongs to the person: "op/<person>" or below it.
func OperatorScope(scope, person string) bool {
	own := "op/" + person
	return scope == own || strings.HasPrefix(scope, own+"/")
}
