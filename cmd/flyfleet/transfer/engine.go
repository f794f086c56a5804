package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"path"
	"slices"
)

var (
	errSpecial      = errors.New("it is no file, directory or link")
	errSpecialThere = errors.New("something that is no file, directory or link is in its place")
)

// engine copies from one side to the other.
type engine struct {
	from, to side
	// tag tells this pair of places from others, in the names of parts.
	tag    string
	report *Report
	// tell hears how many bytes are done, of how many.
	tell        func(done, total int64)
	done, total int64
}

func (e *engine) progress(n int64) {
	e.done += n
	if e.tell != nil {
		e.tell(e.done, e.total)
	}
}

// partOf is the part file of a large file: beside it, so that a rename finishes it.
func partOf(tag, name string) string {
	return path.Join(parentOf(name), partPrefix+sumOf([]byte(tag + "\x00" + name))[:24])
}

// stage is where small files are made ready. Each batch has another: what a killed copy still runs on the machine must not meet this one's.
func (e *engine) stage() string { return e.stages() + rand.Text() }

func (e *engine) stages() string { return partPrefix + e.tag + "-" }

// tree copies all that the source's directory holds. root says whether the directory itself is part of the copy, with its mode and time.
func (e *engine) tree(ctx context.Context, root bool) error {
	listed, err := e.from.list(ctx, e.report.failed)
	if err != nil {
		return err
	}
	return e.copy(ctx, e.checked(listed), root)
}

// checked leaves out what is refused by its name.
func (e *engine) checked(listed []entry) []entry {
	parts := map[string]bool{}
	return slices.DeleteFunc(listed, func(x entry) bool {
		err := checkEntry(x)
		switch {
		case errors.Is(err, errPart) || parts[parentOf(x.name)]:
			parts[x.name] = x.kind == directory
			return true
		case err != nil:
			e.report.failed(x.name, err)
		}
		return err != nil
	})
}

// one copies a single file, known by another name at its source.
func (e *engine) one(ctx context.Context, x entry, base string) error {
	e.from = renamed{e.from, base}
	return e.copy(ctx, []entry{x}, false)
}

// renamed is a source of one file, whatever name it is asked by.
type renamed struct {
	side

	base string
}

func (r renamed) all(entries []entry) []entry {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].name = r.base
	}
	return entries
}

func (r renamed) readMany(ctx context.Context, entries []entry) ([]content, error) {
	read, err := r.side.readMany(ctx, r.all(entries))
	for i := range read {
		read[i].entry = entries[i]
	}
	return read, err
}

func (r renamed) read(ctx context.Context, _ string, offset, limit int64) ([]byte, error) {
	return r.side.read(ctx, r.base, offset, limit)
}

func (r renamed) hash(ctx context.Context, entries []entry) ([]string, error) {
	return r.side.hash(ctx, r.all(entries))
}

func (e *engine) copy(ctx context.Context, source []entry, root bool) error {
	names := make([]string, len(source))
	for i, x := range source {
		names[i] = x.name
	}
	target, err := e.to.look(ctx, names)
	if err != nil {
		return err
	}
	p := draw(source, target, e.report.failed)
	e.total = p.bytes
	e.progress(0)
	if err := e.directories(ctx, p); err != nil {
		return err
	}
	if err := e.compare(ctx, &p); err != nil {
		return err
	}
	if err := e.files(ctx, p.files); err != nil {
		return err
	}
	if err := e.links(ctx, p.links); err != nil {
		return err
	}
	e.report.Kept = p.kept
	slices.Reverse(p.directories) // a directory's time is set when nothing in it changes any more
	last := slices.DeleteFunc(p.directories, func(x entry) bool { return x.name == "." && !root })
	if fix := slices.Concat(p.touch, last); len(fix) > 0 {
		return e.to.touch(ctx, fix, e.report.failed)
	}
	return nil
}

func (e *engine) directories(ctx context.Context, p plan) error {
	var names []string
	for _, d := range p.directories {
		names = append(names, d.name)
	}
	if len(names) == 0 {
		return nil
	}
	e.report.Directories = len(names)
	return e.to.mkdirs(ctx, names)
}

// compare sends nothing of files whose content is there already under another time.
func (e *engine) compare(ctx context.Context, p *plan) error {
	if len(p.same) == 0 {
		return nil
	}
	theirs, err := e.from.hash(ctx, p.same)
	if err != nil {
		return err
	}
	ours, err := e.to.hash(ctx, p.same)
	if err != nil {
		return err
	}
	for i, x := range p.same {
		if theirs[i] == "" || theirs[i] != ours[i] {
			p.files = append(p.files, x)
			continue
		}
		p.kept++
		p.touch = append(p.touch, x)
		e.progress(x.size)
	}
	return nil
}

func (e *engine) files(ctx context.Context, files []entry) error {
	var batch []entry
	size := int64(0)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := e.batch(ctx, batch)
		batch, size = nil, 0
		return err
	}
	if slices.ContainsFunc(files, func(x entry) bool { return !x.large() }) {
		// What a killed copy staged is of unknown worth, and little.
		if err := e.to.sweep(ctx, e.stages()); err != nil {
			return err
		}
	}
	for _, x := range files {
		if x.large() {
			if err := e.large(ctx, x); err != nil {
				return err
			}
			continue
		}
		if size+x.size > batchBytes || len(batch) >= batchFiles {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, size = append(batch, x), size+x.size
	}
	return flush()
}

// batch copies small files together.
func (e *engine) batch(ctx context.Context, entries []entry) error {
	read, err := e.from.readMany(ctx, entries)
	if err != nil {
		return err
	}
	bad := len(e.report.Failed) + e.report.More
	read = slices.DeleteFunc(read, func(c content) bool {
		if c.err != nil {
			e.report.failed(c.name, c.err)
		}
		return c.err != nil
	})
	size := int64(0)
	for _, c := range read {
		size += int64(len(c.data))
	}
	skipped := len(e.report.Failed) + e.report.More - bad
	failed := 0
	err = e.to.writeMany(ctx, e.stage(), read, func(name string, err error) {
		failed++
		e.report.failed(name, err)
	})
	if err != nil {
		return err
	}
	e.report.Files += len(entries) - skipped - failed
	e.report.Bytes += size
	e.progress(size)
	return nil
}

func (e *engine) links(ctx context.Context, links []entry) error {
	if len(links) == 0 {
		return nil
	}
	failed := 0
	err := e.to.link(ctx, links, func(name string, err error) {
		failed++
		e.report.failed(name, err)
	})
	e.report.Links = len(links) - failed
	return err
}
