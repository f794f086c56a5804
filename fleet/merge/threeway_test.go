package merge_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/merge"
)

func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

func TestThreeWayByTable(t *testing.T) {
	for _, tc := range []struct {
		name, theirs, path, base, ours string
		want, conflict                 string
	}{
		{"ours replaces base", `{"env":{"A":"1","X":"f"}}`, "/env/A", `"1"`, `"2"`, `{"env":{"A":"2","X":"f"}}`, ""},
		{"already ours", `{"env":{"A":"2"}}`, "/env/A", `"1"`, `"2"`, `{"env":{"A":"2"}}`, ""},
		{"changed by another", `{"env":{"A":"9"}}`, "/env/A", `"1"`, `"2"`, `{"env":{"A":"2"}}`, "changed"},
		{"removed by another", `{"env":{}}`, "/env/A", `"1"`, `"2"`, `{"env":{"A":"2"}}`, "removed"},
		{"added by another", `{"env":{"A":"9"}}`, "/env/A", ``, `"2"`, `{"env":{"A":"2"}}`, "added"},
		{"added", `{"env":{"X":"f"}}`, "/env/A", ``, `"2"`, `{"env":{"X":"f","A":"2"}}`, ""},
		{"added to an empty object", `{"env":{ }}`, "/env/A", ``, `"2"`, `{"env":{"A":"2" }}`, ""},
		{"added with its parents", `{"a":1}`, "/stop_config/signal", ``, `"SIGTERM"`, `{"a":1,"stop_config":{"signal":"SIGTERM"}}`, ""},
		{"added where null stands", `{"env":null,"a":1}`, "/env/A", ``, `"2"`, `{"env":{"A":"2"},"a":1}`, ""},
		{"removed first", `{"env":{ "A" : "1" , "X":"f"}}`, "/env/A", `"1"`, ``, `{"env":{ "X":"f"}}`, ""},
		{"removed last", `{"env":{"X":"f" , "A":"1" }}`, "/env/A", `"1"`, ``, `{"env":{"X":"f" }}`, ""},
		{"removed alone", `{"env":{ "A":"1" }}`, "/env/A", `"1"`, ``, `{"env":{  }}`, ""},
		{"removal of what is gone", `{"b":1}`, "/env/A", `"1"`, ``, `{"b":1}`, ""},
		{"removal of what another changed", `{"env":{"A":"9"}}`, "/env/A", `"1"`, ``, `{"env":{}}`, "changed"},
		{"same number, other spelling", `{"n":1.0}`, "/n", `1`, `1e0`, `{"n":1.0}`, ""},
		{"no rounding", `{"n":9007199254740993}`, "/n", `9007199254740992`, `1`, `{"n":1}`, "changed"},
		{"same object, other order", `{"g":{"b":2,"a":1}}`, "/g", `{"a":1,"b":2}`, `{"a":1,"b":3}`, `{"g":{"a":1,"b":3}}`, ""},
		{"null and empty list differ", `{"services":[]}`, "/services", `[]`, `[{"p":1}]`, `{"services":[{"p":1}]}`, ""},
		{"inside a list", `{"mounts":[{"path":"/data","volume":"v"}]}`, "/mounts/0/path", `"/data"`, `"/w"`, `{"mounts":[{"path":"/w","volume":"v"}]}`, ""},
		{"appended to a list", `{"l":[1]}`, "/l/1", ``, `2`, `{"l":[1,2]}`, ""},
		{"removed from a list", `{"l":[1,2,3]}`, "/l/1", `2`, ``, `{"l":[1,3]}`, ""},
		{"a name with a slash", `{"env":{"a/b":"1"}}`, merge.Pointer("env", "a/b"), `"1"`, `"2"`, `{"env":{"a/b":"2"}}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, conflicts, err := merge.ThreeWay(raw(tc.theirs), []merge.Change{{Path: tc.path, Base: raw(tc.base), Ours: raw(tc.ours)}})
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			var kinds []string
			for _, c := range conflicts {
				kinds = append(kinds, c.Theirs)
			}
			if strings.Join(kinds, ",") != tc.conflict {
				t.Errorf("conflicts %v, want %q", conflicts, tc.conflict)
			}
		})
	}
}

func TestThreeWayRefusesAPathThroughAScalar(t *testing.T) {
	for path, theirs := range map[string]string{
		"/env/A":     `{"env":"text"}`,
		"/l/7":       `{"l":[1]}`,
		"":           `{}`,
		"no-pointer": `{}`,
	} {
		_, _, err := merge.ThreeWay(raw(theirs), []merge.Change{{Path: path, Ours: raw(`1`)}})
		if err == nil {
			t.Errorf("path %q in %s was accepted", path, theirs)
		}
	}
	if _, _, err := merge.ThreeWay(raw(`{}`), []merge.Change{{Path: "/a", Ours: raw(`{`)}}); err == nil {
		t.Error("a value that is not JSON was accepted")
	}
}

// A conflict names the path and never a value: env values are secrets often enough.
func TestConflictShowsNoValue(t *testing.T) {
	_, conflicts, err := merge.ThreeWay(raw(`{"env":{"KEY":"theirsecret"}}`),
		[]merge.Change{{Path: "/env/KEY", Base: raw(`"basesecret"`), Ours: raw(`"oursecret"`)}})
	if err != nil || len(conflicts) != 1 {
		t.Fatalf("conflicts %v, error %v", conflicts, err)
	}
	if s := fmt.Sprintf("%v %+v", conflicts[0], conflicts); strings.Contains(s, "secret") {
		t.Fatalf("a value is shown: %s", s)
	}
}

// What no change names keeps its bytes, whatever the config: the unmanaged members around the managed ones come out as
// they went in, in their order.
func TestThreeWayNeverTouchesUnmanagedBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts, kept []string
		var changes []merge.Change
		n := rapid.IntRange(1, 6).Draw(t, "members")
		for i := range n {
			name := fmt.Sprintf("k%d", i)
			text := fmt.Sprintf(`"%s"%s:%s%s`, name, space().Draw(t, "ws"), space().Draw(t, "ws"), valueText(2).Draw(t, "value"))
			value, _, err := merge.Get(raw("{"+text+"}"), "/"+name)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, text)
			switch rapid.SampledFrom([]string{"keep", "set", "remove"}).Draw(t, "what") {
			case "keep":
				kept = append(kept, text)
			case "set":
				changes = append(changes, merge.Change{Path: "/" + name, Base: value, Ours: raw(`"@@OURS@@"`)})
			case "remove":
				changes = append(changes, merge.Change{Path: "/" + name, Base: value})
			}
		}
		config := "{" + strings.Join(parts, space().Draw(t, "ws")+","+space().Draw(t, "ws")) + "}"
		got, conflicts, err := merge.ThreeWay(raw(config), changes)
		if err != nil || len(conflicts) > 0 {
			t.Fatalf("%s: conflicts %v, error %v", config, conflicts, err)
		}
		rest := string(got)
		for _, text := range kept {
			i := strings.Index(rest, text)
			if i < 0 {
				t.Fatalf("%q is not in the result, or out of order:\n%s\n%s", text, config, got)
			}
			rest = rest[i+len(text):]
		}
		for _, c := range changes {
			now, ok, err := merge.Get(got, c.Path)
			if err != nil {
				t.Fatalf("the result cannot be read: %v\n%s", err, got)
			}
			if c.Ours != nil && string(now) != string(c.Ours) {
				t.Fatalf("%s is %s after the merge", c.Path, now)
			}
			// A removed null is absent by meaning already and may stay.
			if c.Ours == nil && ok && string(now) != "null" {
				t.Fatalf("%s still stands: %s", c.Path, got)
			}
		}
	})
}

// Merging twice is merging once.
func TestThreeWayIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := objectText(3, nil).Draw(t, "config")
		path := merge.Pointer(rapid.SliceOfN(rapid.SampledFrom([]string{"env", "A", "a/b", "new"}), 1, 3).Draw(t, "path")...)
		change := []merge.Change{{Path: path, Ours: raw(rapid.SampledFrom([]string{"", `"v"`, `{"a":1}`}).Draw(t, "ours"))}}
		first, _, err := merge.ThreeWay(raw(config), change)
		if err != nil {
			return
		}
		second, conflicts, err := merge.ThreeWay(first, change)
		if err != nil || len(conflicts) > 0 || !slices.Equal(first, second) {
			t.Fatalf("%s\nfirst  %s\nsecond %s\n%v %v", config, first, second, conflicts, err)
		}
	})
}

func TestEqualByMeaning(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{`1`, `1.0`, true},
		{`1e400`, `10e399`, true},
		{`1e400`, `1e401`, false},
		{`0.10`, `1e-1`, true},
		{`-0`, `0`, true},
		{`1e99999999999999999999`, `1e99999999999999999999`, true},
		{`9007199254740993`, `9007199254740992`, false},
		{`"\u0041"`, `"A"`, true},
		{`null`, ``, true},
		{`null`, `[]`, false},
		{`[1,2]`, `[2,1]`, false},
		{`{"a":1,"b":null}`, `{"a":1}`, false},
		{`{"a":1,"b":2}`, ` {"b":2, "a":1.0} `, true},
		{`not json`, `not json`, true},
		{`not json`, `1`, false},
	} {
		if got := merge.Equal(raw(tc.a), raw(tc.b)); got != tc.want {
			t.Errorf("Equal(%s, %s) = %v", tc.a, tc.b, got)
		}
	}
}

func FuzzThreeWay(f *testing.F) {
	f.Add([]byte(`{"env":{"A":"1"},"n":1e400}`), "/env/A", []byte(`"2"`))
	f.Add([]byte(`{"l":[1,2],"s":"\u0000"}`), "/l/0", []byte(``))
	f.Fuzz(func(t *testing.T, config []byte, path string, ours []byte) {
		got, _, err := merge.ThreeWay(config, []merge.Change{{Path: path, Ours: ours}})
		if err != nil {
			return
		}
		now, _, err := merge.Get(got, path)
		if err != nil && !strings.Contains(err.Error(), "neither") { // an appended element has an index, not "-"
			t.Fatalf("the result cannot be read: %v\n%q", err, got)
		}
		if !merge.Equal(now, ours) && !strings.HasSuffix(path, "/-") && !strings.Contains(path, "/-/") && !merge.Equal(ours, nil) {
			t.Fatalf("%q at %q reads %q, want %q", got, path, now, ours)
		}
	})
}
