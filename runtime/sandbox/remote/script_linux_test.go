package remote

import (
	"os/exec"
	"strings"
	"testing"
)

var allScripts = []script{
	statScript, manyScript, existsScript, listScript, readScript, bulkScript, writeScript, writesScript, batchScript, unstageScript, mkdirScript, mkdirsScript, removeScript,
	packScript, vetScript, unpackScript, modesScript, readsScript, sweepScript, discardScript,
}

// shells that a machine may have.
var shells = [][]string{{"sh"}, {"busybox", "sh"}}

func TestScriptsAreWholeAndPlain(t *testing.T) {
	entries, err := sources.ReadDir("scripts")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{"prelude.sh": true, "place.sh": true, "part.sh": true}
	for _, s := range allScripts {
		used[s.name+".sh"] = true
		own, err := sources.ReadFile("scripts/" + s.name + ".sh")
		if err != nil || !strings.HasSuffix(strings.TrimSpace(s.text), lastLine(string(own))) || !strings.Contains(s.text, "why() {") {
			t.Errorf("%s: its text is not whole (%v)", s.name, err)
		}
		for _, shell := range shells {
			command := exec.Command(shell[0], append(shell[1:], "-n", "-c", s.text)...)
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%s: %v does not read it: %v: %s", s.name, shell, err, out)
			}
		}
	}
	for _, e := range entries {
		if !used[e.Name()] {
			t.Errorf("%s is used by none", e.Name())
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimLeft(lines[len(lines)-1], " ")
}

// Names are never in a script's text, whatever they are.
func TestAScriptsTextIsTheSameForEveryName(t *testing.T) {
	o := operation{link: &link{}, dir: "/d", id: "018cc251-f400-7000-8000-000000000000"}
	for _, name := range append([]string{"$(touch pwned)", "'; touch pwned; '"}, oddNames...) {
		spec := o.spec(&job{script: statScript, args: []string{spell(name)}})
		argv := spec.GetArgv()
		if len(argv) != 6 || string(argv[0]) != "sh" || string(argv[1]) != "-c" || string(argv[2]) != statScript.text || string(argv[5]) != spell(name) {
			t.Errorf("%q: %q", name, argv)
		}
	}
}
