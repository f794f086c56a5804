package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Mask stands where a secret was.
const Mask = "[secret]"

// MinValue is the shortest known value that is masked: shorter ones, such as "dev", would mask words.
const MinValue = 6

// MaxSecret is the longest secret that is masked whole, and so the most that a stream holds back. Of what has the
// shape of a longer one, so much is masked.
const MaxSecret = 16 << 10

// Redactor masks secrets. It never changes after it was made, and may be used from many goroutines.
type Redactor struct {
	// known are the forms of known values by their first byte, the longest first.
	known [256][]string
	// pairs are the first two bytes of all that is looked for: most bytes of a text are passed by it.
	pairs [1 << 16 / 64]uint64
	// exact: only known values are secret.
	exact bool
}

// NewRedactor masks these values and key shapes. A value that Masks refuses is left out.
func NewRedactor(values ...string) *Redactor {
	r := new(Redactor)
	seen := map[string]bool{}
	for _, value := range values {
		if !Masks(value) {
			continue
		}
		for _, form := range forms(value) {
			if !seen[form] {
				seen[form] = true
				r.known[form[0]] = append(r.known[form[0]], form)
			}
		}
	}
	for _, known := range r.known {
		slices.SortFunc(known, func(a, b string) int { return len(b) - len(a) })
		for _, form := range known {
			r.pair(form)
		}
	}
	for i := range shapes {
		r.pair(shapes[i].prefix)
	}
	return r
}

// NewExactRedactor masks these values and nothing else: for text that goes where key shapes are nobody's secret.
func NewExactRedactor(values ...string) *Redactor {
	r := NewRedactor(values...)
	r.exact = true
	return r
}

func (r *Redactor) pair(start string) {
	n := uint(start[0])<<8 | uint(start[1])
	r.pairs[n/64] |= 1 << (n % 64)
}

// passes reports whether nothing that is looked for begins with these two bytes.
func (r *Redactor) passes(a, b byte) bool {
	n := uint(a)<<8 | uint(b)
	return r.pairs[n/64]&(1<<(n%64)) == 0
}

// Masks reports whether a known value of this length is masked.
func Masks(value string) bool { return len(value) >= MinValue && len(value) <= MaxSecret/4 }

// forms are a value as programs print it: as it is, and escaped for JSON, for URLs and in base64 and hex.
func forms(value string) []string {
	all := []string{value}
	if escaped, err := json.Marshal(value); err == nil {
		all = append(all, string(escaped[1:len(escaped)-1]))
	}
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err == nil {
		all = append(all, strings.Trim(strings.TrimSuffix(plain.String(), "\n"), `"`))
	}
	all = append(all, url.QueryEscape(value), url.PathEscape(value), hex.EncodeToString([]byte(value)))
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		all = append(all, base64Forms(encoding, value)...)
	}
	return slices.DeleteFunc(all, func(form string) bool { return len(form) < MinValue })
}

// base64Forms are the characters of a value's base64 that do not depend on what stands around it, at each of the three
// places that it can begin at: "user:secret" is encoded as one.
func base64Forms(encoding *base64.Encoding, value string) []string {
	var all []string
	for skip := range 3 {
		encoded := encoding.WithPadding(base64.NoPadding).EncodeToString(append(make([]byte, skip), value...))
		// The first characters hold bits of what is before, the last may hold bits of what is after.
		from := (skip*8 + 5) / 6
		to := (skip + len(value)) * 8 / 6
		all = append(all, encoded[from:to])
	}
	return all
}

// Redact masks a whole text, and counts the masks.
func (r *Redactor) Redact(text []byte) ([]byte, int) {
	s := r.Stream()
	s.held = text
	chunk := s.emit(nothing)
	return chunk.Data, chunk.Masks
}
