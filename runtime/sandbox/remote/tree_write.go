package remote

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// Bounds of one exec that unpacks.
const (
	unpackBytes = 4 << 20
	unpackNames = 500
	largeEntry  = 1 << 20
	roomOfEntry = 8 << 10 // what an entry takes of a disk beside its bytes
)

// WriteTree reads the stream here, refuses what is hostile before anything of it is sent, and sends the rest in parts: each part is first
// looked at by the machine, whose links only it knows, and unpacked when nothing is wrong with any of it. A large file goes alone, and
// all at once like any WriteFile.
func (s *Sandbox) WriteTree(ctx context.Context, name string, r io.Reader, options sandbox.TreeOptions) error {
	o, err := s.begin(ctx, "writetree")
	if err != nil {
		return err
	}
	if err := checkName(name); err != nil {
		return o.about(name, err)
	}
	told := newProgress(options.Progress)
	t := &treeWriter{
		operation: o, name: name, from: tar.NewReader(meteredReader{r, told}), weigher: weigher{links: map[string]bool{}},
		failed: failures{op: o.op}, modes: map[string]fs.FileMode{}, fresh: map[string]bool{},
	}
	err = t.copy(ctx)
	if err == nil {
		// What follows the end of an archive belongs to the stream still.
		_, err = io.Copy(io.Discard, meteredReader{r, told})
	}
	told.end()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		err = t.failed.err()
	}
	return err
}

// treeWriter is a WriteTree under way.
type treeWriter struct {
	operation

	name    string
	from    *tar.Reader
	weigher weigher
	failed  failures
	modes   map[string]fs.FileMode // of directories, by the stream
	fresh   map[string]bool        // directories that were made here: the others keep their modes

	batch []*treeEntry
	bytes int64
	names int
	jobs  int64
	made  bool // the directory is there
}

// label names the next job; the first is the operation's own.
func (t *treeWriter) label() string {
	t.jobs++
	if t.jobs == 1 {
		return ""
	}
	return "t" + number(t.jobs)
}

func (t *treeWriter) copy(ctx context.Context) error {
	for {
		h, err := t.from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return fmt.Errorf("reading the tree to write: %w", err)
		}
		e, refused := t.weigher.weigh(h)
		switch {
		case refused != nil:
			t.failed.add(h.Name, refused)
			continue
		case e == nil:
			continue
		}
		if err := t.add(ctx, e); err != nil {
			return err
		}
	}
	if len(t.batch) > 0 || !t.made || t.once {
		if err := t.flush(ctx, "last"); err != nil {
			return err
		}
	}
	return t.shut(ctx)
}

func (t *treeWriter) add(ctx context.Context, e *treeEntry) error {
	size, names := e.header.Size, len(e.header.Name)+len(e.header.Linkname)+16
	full := t.bytes+size > unpackBytes || t.names+names > mostArguments || len(t.batch) >= unpackNames
	if len(t.batch) > 0 && (full || e.linked) || size > largeEntry && (len(t.batch) > 0 || !t.made) {
		if err := t.flush(ctx, "more"); err != nil {
			return err
		}
	}
	if size > largeEntry {
		return t.large(ctx, e)
	}
	if size > 0 {
		e.content = make([]byte, size)
		if _, err := io.ReadFull(t.from, e.content); err != nil {
			return fmt.Errorf("reading the tree to write: %w", err)
		}
	}
	if e.header.Typeflag == tar.TypeDir {
		t.modes[e.header.Name] = fs.FileMode(e.header.Mode)
	}
	t.batch, t.bytes, t.names = append(t.batch, e), t.bytes+size+1024, t.names+names
	return nil
}

func (t *treeWriter) flush(ctx context.Context, end string) error {
	batch := t.batch
	t.batch, t.bytes, t.names = nil, 0, 0
	for first := true; first || len(batch) > 0; first = false {
		rest, err := t.unpack(ctx, batch, end)
		if err != nil {
			return err
		}
		batch = rest
	}
	return nil
}

// unpack sends entries and returns those that are to be sent again: all but the ones that the machine has something against.
func (t *treeWriter) unpack(ctx context.Context, entries []*treeEntry, end string) ([]*treeEntry, error) {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e *treeEntry) bool { return e.header.Name == "." })
	var vetted []string
	need := int64(0)
	for _, e := range entries {
		vetted = append(vetted, e.vetted()...)
		need += e.header.Size + roomOfEntry
	}
	list := ended(vetted)
	archive, err := archiveOf(entries)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.op, err)
	}
	answer, err := t.run(ctx, job{
		script: unpackScript, part: t.label(), dir: t.start(t.name),
		args: []string{spell(t.name), number(int64(len(list))), vetScript.text, end, number(need)}, stdin: append(list, archive...),
	})
	if err == nil {
		_, answer, err = statusOf(answer)
	}
	var all []record
	if err == nil {
		all, err = records(answer)
	}
	if err != nil {
		return nil, t.about(t.name, err)
	}
	t.made = true
	against := map[string]error{}
	for _, r := range all {
		switch r.kind {
		case 'x':
			if r.code == 0 {
				return nil, nil
			}
			return nil, t.verify(ctx, entries, r.name)
		case 's':
			return nil, t.each(ctx, entries)
		case 'd':
			t.fresh[local(r.name)] = true
		case 'e':
			against[local(r.name)] = r.err
		}
	}
	rest := t.without(entries, against)
	if len(rest) == len(entries) {
		return nil, t.about(t.name, errTorn)
	}
	return rest, nil
}

// without notes the entries that something is said against, and returns the others.
func (t *treeWriter) without(entries []*treeEntry, against map[string]error) []*treeEntry {
	var rest []*treeEntry
	for _, e := range entries {
		err := against[e.header.Name]
		if err == nil && e.header.Typeflag == tar.TypeLink {
			err = against[e.header.Linkname]
		}
		if err == nil {
			rest = append(rest, e)
			continue
		}
		t.failed.add(e.header.Name, err)
	}
	return rest
}

// verify looks at what a tar that failed has made, and does the rest entry by entry, to know what fails and why.
func (t *treeWriter) verify(ctx context.Context, entries []*treeEntry, since string) error {
	var names []string
	for _, e := range entries {
		names = append(names, "./"+e.header.Name)
	}
	o := t.operation
	o.dir = t.root()
	found, err := o.look(ctx, job{part: t.label()}, names)
	if err != nil {
		return err
	}
	var again []*treeEntry
	var half []string
	for _, e := range entries {
		is, there := found.itself["./"+e.header.Name]
		if there && e.as(is) {
			continue
		}
		again = append(again, e)
		if there && is.Mode.IsRegular() {
			half = append(half, since+" ./"+e.header.Name)
		}
	}
	if len(half) > 0 {
		if _, err := o.run(ctx, job{script: manyScript, part: t.label(), args: []string{sweepScript.text}, stdin: ended(half)}); err != nil {
			return err
		}
	}
	return t.each(ctx, again)
}

// each makes entries one by one, so that it is known of each why it cannot be made, and no file is touched that cannot be replaced.
func (t *treeWriter) each(ctx context.Context, entries []*treeEntry) error {
	for _, e := range entries {
		if err := t.one(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// as says whether the entry was made.
func (e *treeEntry) as(is sandbox.Info) bool {
	switch e.header.Typeflag {
	case tar.TypeDir:
		return is.Mode.IsDir()
	case tar.TypeSymlink:
		return is.Mode.Type() == fs.ModeSymlink
	case tar.TypeFifo:
		return is.Mode.Type() == fs.ModeNamedPipe
	case tar.TypeLink:
		return is.Links > 1
	}
	return is.Mode.IsRegular() && is.Size == e.header.Size && is.Modified.Equal(e.header.ModTime) && is.Mode.Perm() == fs.FileMode(e.header.Mode)
}

// one makes a single entry: a file and a directory by the scripts that know why not, anything else by tar again.
func (t *treeWriter) one(ctx context.Context, e *treeEntry) error {
	switch e.header.Typeflag {
	case tar.TypeReg:
		return t.file(ctx, e, job{stdin: e.content})
	case tar.TypeDir:
		t.fresh[e.header.Name] = true
		return t.note(e, t.status(ctx, job{
			script: mkdirsScript, part: t.label(), dir: t.root(), args: []string{spell("./" + e.header.Name), "yes", "755"},
		}))
	}
	archive, err := archiveOf([]*treeEntry{e})
	if err != nil {
		return err
	}
	answer, err := t.run(ctx, job{
		script: unpackScript, part: t.label(), dir: t.start(t.name), args: []string{spell(t.name), "0", "", "one", "0"}, stdin: archive,
	})
	if err != nil {
		return t.about(t.name, err)
	}
	if !bytes.Contains(answer, []byte("\nx 0 ")) {
		t.failed.add(e.header.Name, syscall.EIO)
	}
	return nil
}

// root is the tree's directory from the root.
func (t *treeWriter) root() string {
	if name := spell(t.name); name[0] == '/' {
		return name
	}
	return strings.TrimSuffix(t.dir, "/") + "/" + spell(t.name)
}

func (t *treeWriter) status(ctx context.Context, j job) error {
	answer, err := t.run(ctx, j)
	if err == nil {
		_, _, err = statusOf(answer)
	}
	return err
}

// note keeps what is about the entry, and returns what is about the machine.
func (t *treeWriter) note(e *treeEntry, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		t.failed.add(e.header.Name, errno)
		return nil
	}
	return err
}

// file makes one file at once, never through a link.
func (t *treeWriter) file(ctx context.Context, e *treeEntry, j job) error {
	label := t.label()
	id, err := t.idOf(label)
	if err != nil {
		return err
	}
	j.part, j.dir = label, t.root()
	j.args = []string{
		spell("./" + e.header.Name), octal(fs.FileMode(e.header.Mode)), number(e.header.Size), number(e.header.ModTime.Unix()), id, "no",
	}
	return t.note(e, t.place(ctx, "./"+e.header.Name, id, j))
}

// large sends a file that is not held in memory.
func (t *treeWriter) large(ctx context.Context, e *treeEntry) error {
	o := t.operation
	o.dir = t.root()
	answer, err := o.run(ctx, job{script: manyScript, part: t.label(), args: []string{vetScript.text}, stdin: ended(e.vetted())})
	if err != nil {
		return err
	}
	all, err := records(answer)
	if err != nil {
		return err
	}
	if len(all) > 0 {
		t.failed.add(e.header.Name, all[0].err)
		return nil
	}
	content := &sized{from: t.from, left: e.header.Size}
	err = t.file(ctx, e, job{source: content, length: e.header.Size})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var unavailable *sandbox.UnavailableError
	if errors.As(err, &unavailable) {
		// Nothing more is read, so a source that gives nothing is not waited for.
		return err
	}
	if failed := content.close(); failed != nil {
		return fmt.Errorf("reading the tree to write: %w", failed)
	}
	return err
}

// sized reads so many bytes, and fails when there are fewer. The wire's client may be inside a Read when it has no more use for it.
type sized struct {
	mu     sync.Mutex
	from   io.Reader
	left   int64
	failed error
}

// close waits for a Read under way, after which there is none, and returns what went wrong with the source.
func (s *sized) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = 0
	return s.failed
}

func (s *sized) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.from.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
		if s.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	if err != nil {
		s.failed = err
	}
	return n, err
}

// shut gives directories their modes, the deepest first: one that is shut keeps nobody from those below it.
func (t *treeWriter) shut(ctx context.Context) error {
	var names []string
	for name, mode := range t.modes {
		if t.fresh[name] && mode != 0o755 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		switch {
		case a == ".":
			return 1
		case b == ".":
			return -1
		}
		return strings.Compare(b, a)
	})
	o := t.operation
	o.dir = t.root()
	for len(names) > 0 {
		var args []string
		for n := 0; len(names) > 0 && n < mostArguments; names = names[1:] {
			args = append(args, octal(t.modes[names[0]])+" ./"+names[0])
			n += len(names[0]) + 16
		}
		answer, err := o.run(ctx, job{script: modesScript, part: t.label(), args: args})
		if err != nil {
			return err
		}
		all, err := records(answer)
		if err != nil {
			return err
		}
		for _, r := range all {
			t.failed.add(local(r.name), r.err)
		}
	}
	return nil
}
