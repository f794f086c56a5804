package merge_test

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// The generators write JSON text, not values, because the text is what must survive: odd white space, escaped names,
// numbers that no float holds, strings with \u0000 and lone surrogates.

func space() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "  \r\n "})
}

func number() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"0", "-0", "1", "1.0", "1e400", "-1E-400", "9007199254740993", "0.10", "1e5", "100000", "12345678901234567890123"})
}

func stringText() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{`""`, `"a"`, `"\u0000"`, `"\ud800"`, `"<&>"`, `"\/"`, `"é\u00e9"`, `"\"image\":"`, `"` + "\xff" + `"`, `"}]{["`})
}

func nameText() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{`"env"`, `"A"`, `"a/b"`, `"m~n"`, `"\u0041A"`, `"x y"`, `""`, `"services"`, `"im\u0061ges"`, `"0"`, `"\ud83d\ude00"`})
}

func valueText(depth int) *rapid.Generator[string] {
	scalar := rapid.OneOf(number(), stringText(), rapid.SampledFrom([]string{"true", "false", "null"}))
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(scalar, objectText(depth-1, nil), arrayText(depth-1))
}

func arrayText(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(0, 3).Draw(t, "elements")
		parts := make([]string, n)
		for i := range parts {
			parts[i] = space().Draw(t, "ws") + valueText(depth).Draw(t, "element") + space().Draw(t, "ws")
		}
		return "[" + orSpace(t, parts) + "]"
	})
}

// objectText writes an object of members with different names; extra are members that it must have, anywhere.
func objectText(depth int, extra []string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		names := rapid.SliceOfNDistinct(nameText(), 0, 4, rapid.ID[string]).Draw(t, "names")
		var parts []string
		for _, n := range names {
			parts = append(parts, fmt.Sprintf("%s%s%s:%s%s%s", space().Draw(t, "ws"), n, space().Draw(t, "ws"), space().Draw(t, "ws"),
				valueText(depth).Draw(t, "value"), space().Draw(t, "ws")))
		}
		for _, e := range extra {
			at := rapid.IntRange(0, len(parts)).Draw(t, "place")
			parts = append(parts[:at], append([]string{e}, parts[at:]...)...)
		}
		return "{" + orSpace(t, parts) + "}"
	})
}

func orSpace(t *rapid.T, parts []string) string {
	if len(parts) == 0 {
		return space().Draw(t, "ws")
	}
	return strings.Join(parts, ",")
}
