// Package ls is the verb that lists files of a machine.
package ls

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/reach"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/terminal"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/transfer"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// Command is `flyfleet ls`.
type Command struct {
	App     string `arg:"" help:"App of the tenant."`
	Path    string `arg:"" optional:"" default:"." help:"Directory, or file; a relative one starts at the workspace."`
	Machine string `help:"Id of the machine, for an app with several."`
}

// Help is the long help.
func (*Command) Help() string {
	return `One line a name: mode, links, owner, group, size, time in UTC, name. Hidden names are listed too. On a terminal, a name that holds
what a terminal would act on is quoted; otherwise names are printed as they are.`
}

// entry is one name, in its JSON form. A name that is not UTF-8 comes in name_base64.
type entry struct {
	Name       string    `json:"name"`
	NameBase64 string    `json:"name_base64,omitempty"`
	Type       string    `json:"type"`
	Mode       string    `json:"mode"`
	Size       int64     `json:"size"`
	Modified   time.Time `json:"modified"`
	Links      int       `json:"links"`
	UID        int       `json:"uid"`
	GID        int       `json:"gid"`
	Target     string    `json:"target,omitempty"`
	TargetB64  string    `json:"target_base64,omitempty"`

	info sandbox.Info
	goal string
}

// Run lists.
func (k *Command) Run(ctx context.Context, c *console.Console, s *settings.Settings) error {
	m, err := reach.OpenFiles(ctx, s, k.App, k.Machine)
	if err != nil {
		return err
	}
	defer m.Close()
	list, err := k.list(ctx, m)
	var file *fs.PathError
	if errors.As(err, &file) && ctx.Err() == nil {
		return fmt.Errorf("%s:%s: %w", k.App, transfer.Printable(k.Path), file.Err)
	}
	if err != nil {
		return m.Explain(err)
	}
	return c.Result(list, func(w io.Writer) { long(w, list, terminal.Of(c.Out) != nil) })
}

func (k *Command) list(ctx context.Context, m *reach.Files) ([]entry, error) {
	infos, err := m.Box.ReadDir(ctx, k.Path)
	dir := k.Path
	if errors.Is(err, syscall.ENOTDIR) {
		var one sandbox.Info
		if one, err = m.Box.Stat(ctx, k.Path); err == nil {
			one.Name, dir = k.Path, ""
			if one.IsSymlink { // listed as what it is, as in its directory
				one.Mode, one.Size = fs.ModeSymlink|0o777, 0
			}
			infos = []sandbox.Info{one}
		}
	}
	if err != nil {
		return nil, err
	}
	goals, err := transfer.Links(ctx, m.Box, dir, infos, m.Forget)
	if err != nil {
		return nil, err
	}
	list := make([]entry, len(infos))
	for i, info := range infos {
		list[i] = entryOf(info, goals[i])
	}
	return list, nil
}

func entryOf(info sandbox.Info, goal string) entry {
	e := entry{
		Type: typeOf(info.Mode), Mode: fmt.Sprintf("%04o", unix(info.Mode)), Size: info.Size, Modified: info.Modified.UTC(),
		Links: info.Links, UID: info.UID, GID: info.GID, info: info, goal: goal,
	}
	e.Name, e.NameBase64 = text(info.Name)
	e.Target, e.TargetB64 = text(goal)
	return e
}

func text(s string) (plain, encoded string) {
	if utf8.ValidString(s) {
		return s, ""
	}
	return "", base64.StdEncoding.EncodeToString([]byte(s))
}

// kinds are the types of files, each with its name and its letter in a long listing.
var kinds = map[fs.FileMode]struct{ name, letter string }{
	0: {"file", "-"}, fs.ModeDir: {"directory", "d"}, fs.ModeSymlink: {"link", "l"}, fs.ModeNamedPipe: {"fifo", "p"},
	fs.ModeSocket: {"socket", "s"}, fs.ModeDevice: {"device", "b"}, fs.ModeDevice | fs.ModeCharDevice: {"device", "c"},
}

func typeOf(mode fs.FileMode) string {
	if k, ok := kinds[mode.Type()]; ok {
		return k.name
	}
	return "other"
}

func unix(mode fs.FileMode) int {
	n := int(mode.Perm())
	for bit, value := range map[fs.FileMode]int{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&bit != 0 {
			n |= value
		}
	}
	return n
}

// letters are the mode as ls -l has it.
func letters(mode fs.FileMode) string {
	kind := "?"
	if k, ok := kinds[mode.Type()]; ok {
		kind = k.letter
	}
	b := []byte(kind + mode.Perm().String()[1:])
	for _, special := range []struct {
		bit       fs.FileMode
		at        int
		with, not byte
	}{{fs.ModeSetuid, 3, 's', 'S'}, {fs.ModeSetgid, 6, 's', 'S'}, {fs.ModeSticky, 9, 't', 'T'}} {
		if mode&special.bit == 0 {
			continue
		}
		if b[special.at] == 'x' {
			b[special.at] = special.with
		} else {
			b[special.at] = special.not
		}
	}
	return string(b)
}

// long writes aligned lines. Names come last, so that nothing has to be known of their width.
func long(w io.Writer, list []entry, quoted bool) {
	var widths [4]int
	rows := make([][4]string, len(list))
	for i, e := range list {
		rows[i] = [4]string{strconv.Itoa(e.Links), strconv.Itoa(e.UID), strconv.Itoa(e.GID), strconv.FormatInt(e.Size, 10)}
		for k, cell := range rows[i] {
			widths[k] = max(widths[k], len(cell))
		}
	}
	show := func(name string) string {
		if quoted {
			return transfer.Printable(name)
		}
		return name
	}
	for i, e := range list {
		r := rows[i]
		name := show(e.info.Name)
		if e.info.Mode.Type() == fs.ModeSymlink || e.info.IsSymlink {
			name += " -> " + show(e.goal)
		}
		fmt.Fprintf(w, "%s %*s %*s %*s %*s %s %s\n", letters(e.info.Mode), widths[0], r[0], widths[1], r[1], widths[2], r[2],
			widths[3], r[3], e.Modified.Format("2006-01-02 15:04:05"), name)
	}
}
