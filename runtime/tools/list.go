package tools

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// listMost is how many entries a model is told.
const listMost = 1000

func runList(ctx context.Context, call Call) (Result, error) {
	args, err := arguments[struct {
		Path string `json:"path"`
	}](call)
	if err != nil {
		return Result{}, err
	}
	if args.Path == "" {
		args.Path = "."
	}
	entries, err := call.Box.ReadDir(ctx, args.Path)
	if err != nil {
		return fault(ctx, err)
	}
	if len(entries) == 0 {
		return Result{Content: []byte("[the directory is empty]")}, nil
	}
	var out []byte
	for i, entry := range entries {
		if i == listMost {
			out = fmt.Appendf(out, "[and %d more]\n", len(entries)-listMost)
			break
		}
		out = append(out, line(entry)...)
	}
	return call.cut(out), nil
}

func line(entry sandbox.Info) string {
	name := shown(entry.Name)
	switch {
	case entry.IsSymlink:
		return name + "@\n"
	case entry.IsDir():
		return name + "/\n"
	case entry.Mode&fs.ModeType != 0:
		return name + " (" + entry.Mode.Type().String() + ")\n"
	}
	return name + "  " + strconv.FormatInt(entry.Size, 10) + "\n"
}

// shown is a name on a line of its own: quoted where it could be mistaken.
func shown(name string) string {
	odd := strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == '"' })
	if odd || !utf8.ValidString(name) {
		return strconv.Quote(name)
	}
	return name
}
