package remote

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// Stat follows links.
func (s *Sandbox) Stat(ctx context.Context, name string) (sandbox.Info, error) {
	o, err := s.begin(ctx, "stat")
	if err != nil {
		return sandbox.Info{}, err
	}
	if err := checkName(name); err != nil {
		return sandbox.Info{}, o.about(name, err)
	}
	answer, err := o.run(ctx, job{script: statScript, dir: o.start(name), args: []string{spell(name)}})
	if err != nil {
		return sandbox.Info{}, o.about(name, err)
	}
	found, err := statsOf(answer)
	if err != nil {
		return sandbox.Info{}, o.about(name, err)
	}
	stated := found.of(o, name)
	return stated.Info, stated.Err
}

// StatMany is Stat for each name, in one exec; names from the root take another where some are relative.
func (s *Sandbox) StatMany(ctx context.Context, names []string) ([]sandbox.Stated, error) {
	o, err := s.begin(ctx, "stat")
	if err != nil {
		return nil, err
	}
	return o.statMany(ctx, names, "")
}

// statMany looks at names under the job name given and, for those from the root, one made from it.
func (o operation) statMany(ctx context.Context, names []string, part string) ([]sandbox.Stated, error) {
	out := make([]sandbox.Stated, len(names))
	lists := map[bool][]string{}
	for _, name := range names {
		if checkName(name) == nil {
			lists[path.IsAbs(name)] = append(lists[path.IsAbs(name)], spell(name))
		}
	}
	found := map[bool]stats{}
	for _, rooted := range []bool{false, true} {
		if len(lists[rooted]) == 0 {
			continue
		}
		j := job{part: part}
		if rooted {
			j.dir = "/"
			if len(lists[false]) > 0 {
				j.part += "/"
			}
		}
		var err error
		if found[rooted], err = o.look(ctx, j, lists[rooted]); err != nil {
			return nil, err
		}
	}
	for i, name := range names {
		if err := checkName(name); err != nil {
			out[i].Err = o.about(name, err)
			continue
		}
		out[i] = found[path.IsAbs(name)].of(o, name)
	}
	return out, nil
}

// look looks at names, spelled, as the job: as its arguments where one script takes them all, else through xargs, which is two more
// programs. That depends on the names alone, so a repeat on a Once view is the same exec.
func (o operation) look(ctx context.Context, j job, names []string) (stats, error) {
	size := 0
	for _, name := range names {
		size += len(name) + 16
	}
	if size <= mostArguments {
		j.script, j.args = statScript, names
	} else {
		j.script, j.args, j.stdin = manyScript, []string{statScript.text}, ended(names)
	}
	answer, err := o.run(ctx, j)
	if err != nil {
		return stats{}, err
	}
	return statsOf(answer)
}

// ended is a list as xargs -0 reads it.
func ended(names []string) []byte {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(name)
		b.WriteByte(0)
	}
	return []byte(b.String())
}

// stats is what a look at names found, by the names as scripts had them.
type stats struct {
	itself, behind map[string]sandbox.Info
	failed         map[string]error
	all            error // the directory itself could not be entered
}

func statsOf(answer []byte) (stats, error) {
	f := stats{itself: map[string]sandbox.Info{}, behind: map[string]sandbox.Info{}, failed: map[string]error{}}
	if len(answer) > 0 && answer[0] == 'E' {
		_, _, err := statusOf(answer)
		if errors.Is(err, errTorn) {
			return f, err
		}
		f.all = err
		return f, nil
	}
	all, err := records(answer)
	if err != nil {
		return f, err
	}
	for _, r := range all {
		switch r.kind {
		case 'l':
			f.itself[r.name] = r.info
		case 'f':
			f.behind[r.name] = r.info
		case 'e':
			f.failed[r.name] = r.err
		}
	}
	return f, nil
}

func (f stats) of(o operation, name string) sandbox.Stated {
	key := spell(name)
	err := f.failed[key]
	info, there := f.itself[key]
	switch {
	case f.all != nil:
		err = f.all
	case err == nil && !there:
		err = syscall.ENOENT // it vanished between two looks
	}
	if err != nil {
		return sandbox.Stated{Err: o.about(name, err)}
	}
	linked := info.Mode.Type() == fs.ModeSymlink
	if behind, ok := f.behind[key]; ok {
		info = behind
	}
	info.Name, info.IsSymlink = path.Base(name), linked
	return sandbox.Stated{Info: info}
}

// ReadDir lists a directory.
func (s *Sandbox) ReadDir(ctx context.Context, name string) ([]sandbox.Info, error) {
	o, err := s.begin(ctx, "readdir")
	if err != nil {
		return nil, err
	}
	if err := checkName(name); err != nil {
		return nil, o.about(name, err)
	}
	answer, err := o.run(ctx, job{script: listScript, dir: o.start(name), args: []string{spell(name), "1"}, cap: listCap})
	if err != nil {
		return nil, o.about(name, err)
	}
	infos, err := listOf(answer)
	if err != nil {
		return nil, o.about(name, err)
	}
	for i := range infos {
		infos[i].IsSymlink = infos[i].Mode.Type() == fs.ModeSymlink
	}
	return infos, nil
}

// listCap is room for the listing of some million entries.
const listCap = 512 << 20

// listOf reads a listing, sorted by names, which are relative to the directory.
func listOf(answer []byte) ([]sandbox.Info, error) {
	_, rest, err := statusOf(answer)
	if err != nil {
		return nil, err
	}
	all, err := records(rest)
	if err != nil {
		return nil, err
	}
	infos := make([]sandbox.Info, 0, len(all))
	for _, r := range all {
		r.info.Name = strings.TrimPrefix(r.name, "./")
		infos = append(infos, r.info)
	}
	slices.SortFunc(infos, func(a, b sandbox.Info) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

// Exists says whether something is there.
func (s *Sandbox) Exists(ctx context.Context, name string) (bool, error) {
	o, err := s.begin(ctx, "exists")
	if err != nil {
		return false, err
	}
	if err := checkName(name); err != nil {
		return false, o.about(name, err)
	}
	answer, err := o.run(ctx, job{script: existsScript, dir: o.start(name), args: []string{spell(name)}})
	if err != nil {
		return false, o.about(name, err)
	}
	word, _, err := statusOf(answer)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return false, nil // Dir itself is missing
	case err != nil:
		return false, o.about(name, err)
	}
	return word == "yes", nil
}
