package transfer

import (
	"path"
	"strings"
)

// Place is one end of a copy, as it is written on a command line.
type Place struct {
	// App owns the machine; empty is this computer.
	App string
	// Path of the file or tree. On a machine, a relative one starts at the workspace.
	Path string
	// Stream is stdin or stdout.
	Stream bool
}

// ParsePlace reads APP:PATH, a path of this computer, or "-". As with scp, a colon behind a slash belongs to the path: ./a:b is a file here.
func ParsePlace(text string) Place {
	if text == "-" {
		return Place{Stream: true}
	}
	app, name, cut := strings.Cut(text, ":")
	if !cut || app == "" || strings.Contains(app, "/") {
		return Place{Path: text}
	}
	if name == "" {
		name = "."
	}
	return Place{App: app, Path: name}
}

func (p Place) String() string {
	switch {
	case p.Stream:
		return "-"
	case p.App != "":
		return p.App + ":" + p.Path
	}
	return p.Path
}

// inside reports whether the place is by its text alone a directory to put something into, and not the name that the copy gets. What is
// there does not count: a copy that is run again must mean the same as the first time.
func (p Place) inside() bool {
	last := p.Path[strings.LastIndexByte(p.Path, '/')+1:]
	return last == "" || last == "." || last == ".."
}

// whole reports whether a source means what a directory holds, and not a directory by its name.
func (p Place) whole() bool {
	name := strings.TrimRight(p.Path, "/")
	last := name[strings.LastIndexByte(name, '/')+1:]
	return last == "" || last == "." || last == ".."
}

// target is the path that the copy of a source gets.
func (p Place) target(source Place) string {
	if !p.inside() || source.whole() {
		return p.Path
	}
	return strings.TrimSuffix(p.Path, "/") + "/" + path.Base(source.Path)
}

// split parts a path into the directory that holds it and its last element.
func split(name string) (dir, base string) {
	name = strings.TrimRight(name, "/")
	dir, base = path.Split(name)
	if dir == "" {
		dir = "."
	}
	return dir, base
}
