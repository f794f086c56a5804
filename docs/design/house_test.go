package design

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/flyfleet/terraform-provider-flyfleet/"

// allowed lists, for each room, the rooms of ours that its packages may import besides their own.
// Tests may import more: only what ships is held to this.
var allowed = map[string][]string{
	"wire":          {},
	"flylocal":      {},
	"controlserver": {"wire"},
	"fleet":         {"wire"},
	"provider":      {"fleet", "wire"},
	"runtime":       {"fleet/flyapi", "wire"},
	"docs":          {},
	"bench":         {"wire"},
	"cmd":           {"wire", "flylocal", "controlserver", "fleet", "provider", "runtime"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func TestImportsRunOneWay(t *testing.T) {
	packages := listPackages(t)
	if len(packages) < 5 {
		t.Fatalf("go list found %d packages of ours; the listing is broken", len(packages))
	}
	for _, p := range packages {
		for _, complaint := range wrongImports(p) {
			t.Error(complaint)
		}
	}
}

func TestWrongImportIsSeen(t *testing.T) {
	cases := map[string]struct {
		from, to string
		wrong    bool
	}{
		"flylocal must not share the client's mistakes": {"flylocal/api", "fleet/flyapi", true},
		"the wire knows nobody":                         {"wire/client", "controlserver/spool", true},
		"the fleet knows no Terraform":                  {"fleet/swap", "provider/machine", true},
		"the runtime sees machines by the wire":         {"runtime/turn", "fleet/swap", true},
		"the runtime finds machines by the API":         {"runtime/slots", "fleet/flyapi", false},
		"a room uses itself":                            {"fleet/swap", "fleet/flyapi", false},
		"a room that nobody declared":                   {"helpers/x", "wire", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := wrongImports(goPackage{ImportPath: module + c.from, Imports: []string{module + c.to}})
			if (len(got) > 0) != c.wrong {
				t.Errorf("%s imports %s: complaints %q", c.from, c.to, got)
			}
		})
	}
}

func wrongImports(p goPackage) []string {
	var complaints []string
	own := strings.TrimPrefix(p.ImportPath, module)
	room, _, _ := strings.Cut(own, "/")
	may, known := allowed[room]
	if !known {
		return []string{own + ": no such room; docs/design/architecture.md lists them"}
	}
	for _, imported := range p.Imports {
		target, ours := strings.CutPrefix(imported, module)
		if !ours || under(target, room) || underAny(target, may) {
			continue
		}
		complaints = append(complaints, own+" imports "+target+"; "+room+"/ may import only itself and "+strings.Join(may, ", "))
	}
	return complaints
}

func underAny(pkg string, rooms []string) bool {
	for _, room := range rooms {
		if under(pkg, room) {
			return true
		}
	}
	return false
}

func under(pkg, room string) bool { return pkg == room || strings.HasPrefix(pkg, room+"/") }

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list printed something that is not JSON: %v", err)
		}
		packages = append(packages, p)
	}
}
