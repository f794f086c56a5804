package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSetChangesNothingButItsValue(t *testing.T) {
	for _, c := range []struct{ in, path, value, want string }{
		{`{"a":1}`, "a", `2`, `{"a":2}`},
		{`{}`, "a", `2`, `{"a":2}`},
		{` { } `, "a", `2`, ` {"a":2 } `},
		{"{\n \"n\" : 9007199254740993 , \"a\":1e400 }", "b", `"x"`, "{\n \"n\" : 9007199254740993 , \"a\":1e400,\"b\":\"x\" }"},
		{`{"\u0061":1,"s":"\u0000<&>"}`, "a", `2`, `{"\u0061":2,"s":"\u0000<&>"}`},
		{`{"a":1,"a":3}`, "a", `2`, `{"a":1,"a":2}`},
		{`{"m":null}`, "m.k", `"v"`, `{"m":{"k":"v"}}`},
		{`{"x":1}`, "m.k.l", `0`, `{"x":1,"m":{"k":{"l":0}}}`},
		{`{"m":[{"p":"/d"},{"p":"/e"}]}`, "m.1.v", `7`, `{"m":[{"p":"/d"},{"p":"/e","v":7}]}`},
	} {
		got, err := Set([]byte(c.in), []byte(c.value), strings.Split(c.path, ".")...)
		if err != nil || string(got) != c.want {
			t.Errorf("Set(%s, %s=%s) = %s, %v; want %s", c.in, c.path, c.value, got, err, c.want)
		}
	}
}

func TestDeleteTakesExactlyOneMember(t *testing.T) {
	for _, c := range []struct{ in, path, want string }{
		{`{"a":1}`, "a", `{}`},
		{`{"a":1, "b":2}`, "a", `{"b":2}`},
		{`{"a":1, "b":2}`, "b", `{"a":1}`},
		{`{"a":1, "b":2, "c":{"d":3}}`, "b", `{"a":1, "c":{"d":3}}`},
		{`{"a":1, "c":{"d":3}}`, "c.d", `{"a":1, "c":{}}`},
		{`{"a":1,"a":2,"b":3}`, "a", `{"b":3}`},
		{`{"a":1}`, "x.y", `{"a":1}`},
	} {
		got, err := Delete([]byte(c.in), strings.Split(c.path, ".")...)
		if err != nil || string(got) != c.want {
			t.Errorf("Delete(%s, %s) = %s, %v; want %s", c.in, c.path, got, err, c.want)
		}
	}
}

func TestEditsRefuseWhatIsNoJSON(t *testing.T) {
	for _, in := range []string{``, `{`, `{"a":1}}`, `{"a":01}`, `nope`} {
		if _, err := Set([]byte(in), []byte(`1`), "a"); err == nil {
			t.Errorf("Set took %q", in)
		}
		if _, err := Members([]byte(in)); err == nil {
			t.Errorf("Members took %q", in)
		}
	}
}

// jsonText draws JSON texts with odd white space, escapes and numbers.
func jsonText(depth int) *rapid.Generator[string] {
	scalar := rapid.SampledFrom([]string{`0`, `-1.0`, `9007199254740993`, `1e400`, `"\u0000\"\\ü}{"`, `null`, `true`, `""`, `"]"`})
	if depth == 0 {
		return scalar
	}
	space := rapid.SampledFrom([]string{"", " ", "\n\t"})
	key := rapid.SampledFrom([]string{`"a"`, `"b"`, `"\u0061\u0063"`, `"key,:{}"`, `"guest"`})
	container := rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(0, 4).Draw(t, "n")
		array := rapid.Bool().Draw(t, "array") && depth < 3
		var b strings.Builder
		b.WriteString(map[bool]string{true: "[", false: "{"}[array] + space.Draw(t, "s"))
		for i := range n {
			if i > 0 {
				b.WriteString("," + space.Draw(t, "s"))
			}
			if !array {
				b.WriteString(key.Draw(t, "k") + space.Draw(t, "s") + ":" + space.Draw(t, "s"))
			}
			b.WriteString(jsonText(depth-1).Draw(t, "v") + space.Draw(t, "s"))
		}
		b.WriteString(map[bool]string{true: "]", false: "}"}[array])
		return b.String()
	})
	if depth == 3 {
		return container
	}
	return rapid.OneOf(scalar, container)
}

func TestSetThenGetGivesTheBytesAndKeepsTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := []byte(jsonText(3).Draw(t, "in"))
		value := []byte(jsonText(2).Draw(t, "value"))
		before, err := Members(in)
		if err != nil {
			t.Fatalf("generator made invalid JSON %q", in)
		}
		out, err := Set(in, value, "fresh")
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(out) {
			t.Fatalf("invalid result %q", out)
		}
		if got, ok := Get(out, "fresh"); !ok || !bytes.Equal(got, value) {
			t.Fatalf("Get after Set = %q, want %q", got, value)
		}
		after, _ := Members(out)
		for i, m := range before {
			if !bytes.Equal(out[after[i].KeyStart:after[i].End], in[m.KeyStart:m.End]) {
				t.Fatalf("member %d changed: %q, was %q", i, out[after[i].KeyStart:after[i].End], in[m.KeyStart:m.End])
			}
		}
		back, err := Delete(out, "fresh")
		if err != nil || !bytes.Equal(back, in) {
			t.Fatalf("Delete gave %q, want %q", back, in)
		}
	})
}
