package design

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reportName is a public report as comments and pages name it.
var reportName = regexp.MustCompile(`\b[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+#\d+`)

func TestWirePageNamesTestsThatExist(t *testing.T) {
	page := readPage(t, "wire.md")
	declared := declaredTests(t, filepath.Join("..", ".."))
	named := testName.FindAllStringSubmatch(page, -1)
	if len(named) < 50 {
		t.Fatalf("wire.md names %d tests", len(named))
	}
	for _, match := range named {
		if !declared[match[1]] {
			t.Errorf("wire.md names %s, which no test file declares", match[1])
		}
	}
}

// Each report of the page is in the comment of a test that its row names, and each that such a comment
// names is on the page.
func TestWirePageAndTestsNameTheSameReports(t *testing.T) {
	comments := commentsOfTests(t, filepath.Join("..", "..", "controlserver"), filepath.Join("..", "..", "wire"))
	onPage := map[string]bool{}
	for line := range strings.Lines(readPage(t, "wire.md")) {
		reports := reportName.FindAllString(line, -1)
		for _, report := range reports {
			onPage[report] = true
			for _, test := range testName.FindAllStringSubmatch(line, -1) {
				if !slices.Contains(comments[test[1]], report) {
					t.Errorf("%s does not say in its comment that %s is its input", test[1], report)
				}
			}
		}
	}
	if len(onPage) < 70 {
		t.Fatalf("wire.md names %d reports", len(onPage))
	}
	for _, test := range slices.Sorted(maps.Keys(comments)) {
		for _, report := range comments[test] {
			if !onPage[report] {
				t.Errorf("wire.md does not name %s, the input of %s", report, test)
			}
		}
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// commentsOfTests are the reports in the comments of the tests below some folders.
func commentsOfTests(t *testing.T, roots ...string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
					found[f.Name.Name] = reportName.FindAllString(f.Doc.Text(), -1)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
