package rawjson

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestMembersKeepBytesAndOrder(t *testing.T) {
	const in = `{ "z" : 1.50 , "a":"<\u0041\ud800>", "z":[ 1, 2 ],"":{"b" : null} }`
	m, err := Members([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"z":1.50,"a":"<\u0041\ud800>","z":[ 1, 2 ],"":{"b" : null}}`
	if got := string(AppendObject(nil, m)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for _, bad := range []string{``, `[]`, `{`, `{"a"`, `{"a":}`, `{"a":1,}`, `null`} {
		if _, err := Members([]byte(bad)); err == nil {
			t.Errorf("%q has members", bad)
		}
	}
}

func TestInnerKeepsWhatTextCannotHold(t *testing.T) {
	for body, want := range map[string]string{
		`{\"a\":\"\\ud800\"}`:    `{"a":"\ud800"}`,
		`{\"a\":\"\ud800\"}`:     `{"a":"\ud800"}`,
		`\ud83d\ude00`:           "😀",
		`\ud83d\ud83d\ude00`:     `\ud83d` + "😀",
		`\ude00\ud83d`:           `\ude00\ud83d`,
		`\ud83d`:                 `\ud83d`,
		`\ud83dx`:                `\ud83dx`,
		`a\/\b\f\n\r\t\\\u0000é`: "a/\b\f\n\r\t\\\x00é",
	} {
		got, err := Inner([]byte(body))
		if err != nil || string(got) != want {
			t.Errorf("Inner(%s) = %q, %v, want %q", body, got, err, want)
		}
	}
	for _, bad := range []string{`\u12`, `\`, `a"b`, "a\x00"} {
		if _, err := Inner([]byte(bad)); err == nil {
			t.Errorf("Inner(%q) is taken", bad)
		}
	}
}

// A text cut anywhere between its characters, each piece quoted, is the text again.
func TestPiecesJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.String()).Draw(t, "pieces")
		var body []byte
		var whole string
		for _, p := range pieces {
			quote, _ := json.Marshal(p)
			if rapid.Bool().Draw(t, "plain") {
				quote = AppendString(nil, p)
			}
			var err error
			if body, err = AppendBody(body, quote); err != nil {
				t.Fatal(err)
			}
			whole += p
		}
		text, err := Text(body)
		inner, err2 := Inner(body)
		if err != nil || err2 != nil || text != whole || string(inner) != whole {
			t.Fatalf("%q: text %q (%v), inner %q (%v)", whole, text, err, inner, err2)
		}
	})
}

func TestAppendStringMendsWhatIsNotUTF8(t *testing.T) {
	if got := AppendString(nil, "a\xffb<\x00"); !json.Valid(got) || !bytes.Contains(got, []byte("a�b<")) {
		t.Errorf("%s", got)
	}
}

func FuzzInner(f *testing.F) {
	f.Add([]byte(`\ud83d\ude00\ud800`))
	f.Fuzz(func(t *testing.T, body []byte) {
		inner, err := Inner(body)
		if err != nil {
			return
		}
		text, err := Text(body)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(body, []byte(`\u`)) && string(bytes.ToValidUTF8(inner, []byte("�"))) != text && bytes.Equal(inner, bytes.ToValidUTF8(inner, nil)) {
			t.Fatalf("%q: inner %q, text %q", body, inner, text)
		}
	})
}
