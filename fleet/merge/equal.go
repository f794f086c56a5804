package merge

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Equal compares two JSON values by meaning: key order, white space and spelling aside, numbers exactly (1e400 and
// 9007199254740993 are not rounded). Nil, empty and null are one and the same; null and [] are not.
// A value that is not JSON equals only its own bytes.
func Equal(a, b json.RawMessage) bool {
	if absent(a) || absent(b) {
		return absent(a) && absent(b)
	}
	if bytes.Equal(a, b) {
		return true
	}
	va, errA := decode(a)
	vb, errB := decode(b)
	return errA == nil && errB == nil && same(va, vb)
}

func absent(v json.RawMessage) bool {
	t := bytes.TrimSpace(v)
	return len(t) == 0 || string(t) == "null"
}

func decode(raw json.RawMessage) (any, error) {
	if _, err := whole(raw); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

func same(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			w, ok := y[k]
			if !ok || !same(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !same(x[i], y[i]) {
				return false
			}
		}
		return true
	case json.Number:
		y, ok := b.(json.Number)
		return ok && (x == y || canonical(x.String()) == canonical(y.String()))
	default:
		return a == b
	}
}

// canonical brings a number to sign, digits without outer zeros, and a power of ten. big.Rat would take 10^n bytes for
// an exponent n that anybody may write.
func canonical(n string) string {
	mantissa, exponent := n, int64(0)
	if i := strings.IndexAny(n, "eE"); i >= 0 {
		e, err := strconv.ParseInt(n[i+1:], 10, 64)
		if err != nil || e > math.MaxInt32 || e < math.MinInt32 {
			return n // equal to its own spelling only
		}
		mantissa, exponent = n[:i], e
	}
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= int64(len(fraction))
	trimmed := strings.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(trimmed))
	if trimmed == "" {
		return "0"
	}
	return sign + trimmed + "e" + strconv.FormatInt(exponent, 10)
}
