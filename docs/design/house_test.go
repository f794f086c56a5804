package design

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
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

// runtimeRooms is the same within runtime/, and what of the rest of the house each room sees. A package is of the longest name
// here that it is under.
var runtimeRooms = map[string][]string{
	"runtime/journal":             {},
	"runtime/journal/journaltest": {"runtime/journal", "runtime/store"},
	"runtime/store":               {"runtime/journal", "runtime/crashpoint"},
	"runtime/model":               {},
	"runtime/sandbox":             {"wire"},
	"runtime/tools":               {"runtime/journal", "runtime/sandbox"},
	"runtime/secrets":             {},
	"runtime/turn":                {"runtime/journal", "runtime/model"},
	"runtime/driver": {
		"runtime/crashpoint", "runtime/journal", "runtime/machinetoken", "runtime/model", "runtime/sandbox", "runtime/secrets", "runtime/store",
		"runtime/tools", "runtime/turn", "wire",
	},
	"runtime/slots":        {"runtime/driver", "runtime/sandbox", "runtime/store", "wire", "fleet/flyapi"},
	"runtime/machinetoken": {"runtime/store"},
	"runtime/executor":     {"runtime/store"},
	"runtime/upstream":     {"runtime/journal", "runtime/secrets", "runtime/tools"},
	"runtime/gateway": {
		"runtime/driver", "runtime/journal", "runtime/machinetoken", "runtime/model", "runtime/secrets", "runtime/store", "runtime/upstream",
	},
	"runtime/daemon": {
		"runtime/driver", "runtime/executor", "runtime/gateway", "runtime/machinetoken", "runtime/model", "runtime/sandbox", "runtime/secrets",
		"runtime/slots", "runtime/store", "runtime/telemetry", "runtime/tools", "runtime/turn", "runtime/upstream", "wire", "fleet/flyapi",
	},
	"runtime/telemetry":   {},
	"runtime/crashpoint":  {},
	"runtime/replicatest": {},
	"runtime/crashtest":   {},
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
		"decisions do no I/O":                           {"runtime/turn", "runtime/store", true},
		"the store decides nothing of a turn":           {"runtime/store", "runtime/turn", true},
		"the executor knows no driver":                  {"runtime/executor", "runtime/driver", true},
		"the gateway sees no machine":                   {"runtime/gateway", "runtime/sandbox/remote", true},
		"the driver carries out decisions":              {"runtime/driver", "runtime/turn", false},
		"a journal's suite knows the store":             {"runtime/journal/journaltest", "runtime/store", false},
		"the journal does not":                          {"runtime/journal/journaltext", "runtime/store", true},
		"a room of the runtime that nobody declared":    {"runtime/helpers", "runtime/store", true},
		"a name that only begins like a room":           {"runtime/turnstile", "runtime/journal", true},
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
	if room == "runtime" {
		if room = longest(own, runtimeRooms); room == "" {
			return []string{own + ": no such room; docs/design/runtime.md lists them"}
		}
		may = runtimeRooms[room]
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

// longest is the longest of the rooms that the package is under.
func longest(pkg string, rooms map[string][]string) (found string) {
	for room := range rooms {
		if under(pkg, room) && len(room) > len(found) {
			found = room
		}
	}
	return found
}

// What the runtime's rooms see of the rest of the house is not more than the runtime may.
func TestRuntimeRoomsStayWithinTheRuntime(t *testing.T) {
	for room, may := range runtimeRooms {
		for _, target := range may {
			if !under(target, "runtime") && !underAny(target, allowed["runtime"]) {
				t.Errorf("%s may import %s, and the runtime may not", room, target)
			}
		}
	}
}

// The page's table of rooms is the map above, row by row; it leaves out what is not of the runtime, and the suite.
func TestRuntimePageListsItsRooms(t *testing.T) {
	page, err := os.ReadFile("runtime.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{}
	name := regexp.MustCompile("`([a-z]+)`")
	for _, row := range regexp.MustCompile("(?m)^\\| `(runtime/[a-z]+)` \\|.*\\| ([^|]*) \\|$").FindAllStringSubmatch(string(page), -1) {
		may := []string{}
		for _, target := range name.FindAllStringSubmatch(row[2], -1) {
			may = append(may, "runtime/"+target[1])
		}
		slices.Sort(may)
		listed[row[1]] = may
	}
	for room, may := range runtimeRooms {
		want := []string{}
		for _, target := range may {
			if under(target, "runtime") {
				want = append(want, target)
			}
		}
		slices.Sort(want)
		if got, there := listed[room]; room != "runtime/journal/journaltest" && (!there || !slices.Equal(got, want)) {
			t.Errorf("runtime.md lets %s import %q, house_test.go %q", room, got, want)
		}
		delete(listed, room)
	}
	for room := range listed {
		t.Errorf("runtime.md lists %s, house_test.go does not", room)
	}
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
