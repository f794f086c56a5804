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

// Each test that a row of reports.md names has a report of that row in a comment, and each report of the row is in one; what a
// test of the runtime names is in a row with it.
func TestReportsPageAndTestsNameTheSameReports(t *testing.T) {
	runtime := filepath.Join("..", "..", "runtime")
	inTests := commentsIn(t, func(string) bool { return true }, runtime, filepath.Join("..", "..", "controlserver"))
	onPage := map[string]bool{}
	rows := 0
	for line := range strings.Lines(readPage(t, "reports.md")) {
		reports := reportName.FindAllString(line, -1)
		if len(reports) == 0 {
			continue
		}
		rows++
		named := map[string]bool{}
		tests := testName.FindAllStringSubmatch(line, -1)
		for _, test := range tests {
			has := false
			for _, report := range reports {
				onPage[report+" "+test[1]] = true
				if slices.Contains(inTests[test[1]], report) {
					has, named[report] = true, true
				}
			}
			if !has {
				t.Errorf("reports.md gives %s as the test of %v, which is not in its comments", test[1], reports)
			}
		}
		for _, report := range reports {
			if !named[report] {
				t.Errorf("no test that reports.md gives for %s says so in a comment", report)
			}
		}
	}
	if rows != 41 {
		t.Errorf("reports.md has %d rows", rows)
	}
	ours := commentsIn(t, func(path string) bool { return !strings.HasPrefix(path, filepath.Join(runtime, "sandbox")) }, runtime)
	for _, test := range slices.Sorted(maps.Keys(ours)) {
		for _, report := range ours[test] {
			if !onPage[report+" "+test] {
				t.Errorf("reports.md does not give %s as a test of %s", test, report)
			}
		}
	}
}

// commentsIn are the reports in comments above and within the tests below some folders. Tests of one name count as one.
func commentsIn(t *testing.T, wanted func(path string) bool, roots ...string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") || !wanted(path) {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
					continue
				}
				for _, c := range file.Comments {
					if c == f.Doc || c.Pos() >= f.Pos() && c.End() <= f.End() {
						found[f.Name.Name] = append(found[f.Name.Name], reportName.FindAllString(c.Text(), -1)...)
					}
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
