package machine

import (
	"encoding/json"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/imageref"
)

// sameAt reports that two values at a place of the configuration mean the same to Fly. Values of env and metadata are
// text and nothing else; elsewhere durations and autostop are spelled in several ways. Objects are equal when they have
// the same keys with the same values.
func sameAt(place []string, a, b any) bool {
	if len(place) > 0 {
		switch place[0] {
		case "env", "metadata":
			return equal(a, b, func(x any) any { return x })
		case "image":
			x, ok1 := a.(string)
			y, ok2 := b.(string)
			return ok1 && ok2 && imageref.Same(x, y)
		}
	}
	return equal(a, b, meaning)
}

func equal(a, b any, of func(any) any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k := range a {
			if v, ok := b[k]; !ok || !equal(a[k], v, of) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i], of) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return of(a) == of(b)
}

// meaning maps the spellings of one value to one value.
func meaning(v any) any {
	switch v := v.(type) {
	case string:
		switch v {
		case "off":
			return false
		case "stop":
			return true
		}
		if d, err := time.ParseDuration(v); err == nil {
			return d
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		return string(v)
	}
	return v
}
