package remote

import (
	"embed"
	"strings"
)

//go:embed scripts/*.sh
var sources embed.FS

// script is the text of what an operation runs. It is constant: what varies is in arguments and standard input.
type script struct {
	name, text string
}

// The scripts. Those that make what is missing on the way to a name make their working directory too.
var (
	statScript    = load("stat", false)
	manyScript    = load("many", false)
	existsScript  = load("exists", false)
	listScript    = load("list", false)
	readScript    = load("read", false, "part")
	bulkScript    = load("bulk", false, "part")
	writeScript   = load("write", true, "place")
	writesScript  = load("writes", true, "place")
	batchScript   = load("batch", true)
	unstageScript = load("unstage", false)
	discardScript = load("discard", false, "place")
	mkdirScript   = load("mkdir", false)
	mkdirsScript  = load("mkdir", true)
	removeScript  = load("remove", false)
	packScript    = load("pack", false)
	vetScript     = load("vet", false)
	unpackScript  = load("unpack", true)
	modesScript   = load("modes", false)
	readsScript   = load("reads", false)
	sweepScript   = load("sweep", false)
)

// load puts a script together: what all have, the parts it names, its own. Comments stay behind: the text goes over the wire each time.
func load(name string, making bool, parts ...string) script {
	var b strings.Builder
	if making {
		b.WriteString("making=yes\n")
	}
	for _, part := range append(append([]string{"prelude"}, parts...), name) {
		// An embedded file: the build has it. A test looks that each script is whole.
		text, _ := sources.ReadFile("scripts/" + part + ".sh")
		for line := range strings.Lines(string(text)) {
			line = strings.TrimLeft(line, " ")
			if line != "\n" && !strings.HasPrefix(line, "#") {
				b.WriteString(line)
			}
		}
	}
	return script{name: name, text: b.String()}
}
