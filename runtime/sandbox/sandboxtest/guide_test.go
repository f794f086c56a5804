package sandboxtest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// What docs/guides/sandbox.md tells of the suite is so: its snippets are code that runs, and the cases, fixtures and concepts
// that it names are there.
func TestGuideNamesWhatIsThere(t *testing.T) {
	page := read(t, "../../../docs/guides/sandbox.md")
	code := strings.Join(strings.Fields(read(t, "../local/local_test.go")), " ")
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(snippets) < 2 {
		t.Fatalf("the guide has %d snippets", len(snippets))
	}
	for _, s := range snippets {
		if !strings.Contains(code, strings.Join(strings.Fields(s[1]), " ")) {
			t.Errorf("this is not in local's test:\n%s", s[1])
		}
	}
	cases := map[string]bool{}
	for _, c := range Cases() {
		cases[c.String()] = true
	}
	named := regexp.MustCompile("`([a-z]+/[^`]* [^`]*)`").FindAllStringSubmatch(page, -1)
	if len(named) < 10 {
		t.Fatalf("the guide names %d cases", len(named))
	}
	for _, n := range named {
		if !cases[n[1]] {
			t.Errorf("there is no case %q", n[1])
		}
	}
	for concept := range concepts {
		if !strings.Contains(page, "`"+concept+"`") {
			t.Errorf("the guide does not name %s", concept)
		}
	}
	for _, f := range fixtures {
		if !strings.Contains(page, "| `"+string(f)+"` |") {
			t.Errorf("the guide does not tell of the fixture %s", f)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
