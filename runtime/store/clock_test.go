package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// johanhaleby/occurrent#659, mlflow/mlflow#25199: a computer's clock is half a minute ahead, and its leases end early or late. Here no
// statement takes a point in time: what is compared with a time of the database is the database's clock. Only durations go in.
func TestNoTimeOfThisComputerGoesIntoAStatement(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("statement/*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("files %v, %v", files, err)
	}
	params := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				params++
				if hasTime(d.Type.Params) {
					t.Errorf("%s: %s takes a time", name, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if !ok || !strings.HasSuffix(s.Name.Name, "Params") {
						continue
					}
					if fields, ok := s.Type.(*ast.StructType); ok {
						params++
						if hasTime(fields.Fields) {
							t.Errorf("%s: %s has a time", name, s.Name.Name)
						}
					}
				}
			}
		}
	}
	if params < 150 {
		t.Errorf("%d parameters were looked at", params)
	}
}

// hasTime says whether a field's type is, or is made of, a time.
func hasTime(fields *ast.FieldList) bool {
	found := false
	ast.Inspect(fields, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			name := s.Sel.Name
			found = found || name == "Time" || strings.HasPrefix(name, "Timestamp") || name == "Date"
		}
		return !found
	})
	return found
}
