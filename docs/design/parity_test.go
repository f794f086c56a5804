package design

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)`")
	testDecl = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)\(`)
)

func TestParityNamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("parity.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := declaredTests(t, filepath.Join("..", ".."))
	named := testName.FindAllStringSubmatch(string(page), -1)
	if len(named) < 10 {
		t.Fatalf("parity.md names %d tests; a page that names none promises nothing", len(named))
	}
	for _, match := range named {
		if !declared[match[1]] {
			t.Errorf("parity.md names %s, which no test file declares", match[1])
		}
	}
}

func declaredTests(t *testing.T, root string) map[string]bool {
	t.Helper()
	declared := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range testDecl.FindAllStringSubmatch(string(source), -1) {
			declared[match[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return declared
}
