package remote

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

const (
	// packBytes and packNames bound what one exec packs: it waits whole in the spool and here.
	packBytes = 4 << 20
	packNames = 500
	// packRoom is what a pack may become when its files grow meanwhile.
	packRoom = 3 * packBytes
	// packsAhead is how many packs are fetched while one is handed over.
	packsAhead = 2
)

// ReadTree lists the tree, then fetches it in parts: small files by tar, many at a time, and each large file as a bulk read, so
// that a tree of any size passes through a spool of any size. What goes out is written here: whatever the machine's tar makes of a file
// that changes under it, the stream is a valid archive.
func (s *Sandbox) ReadTree(ctx context.Context, name string, w io.Writer, options sandbox.TreeOptions) error {
	o, err := s.begin(ctx, "readtree")
	if err != nil {
		return err
	}
	if err := checkName(name); err != nil {
		return o.about(name, err)
	}
	told := newProgress(options.Progress)
	t := &treeReader{operation: o, tar: tar.NewWriter(meteredWriter{w, told}), failed: failures{op: o.op}}
	infos, err := t.list(ctx, name)
	if err != nil {
		return o.about(name, err)
	}
	if err = t.emit(ctx, infos); err == nil {
		err = t.tar.Close()
	}
	told.end()
	if err == nil {
		err = t.failed.err()
	}
	return err
}

// treeReader is a ReadTree under way.
type treeReader struct {
	operation

	root   string // the directory that names are relative to
	single bool   // the tree is one file
	tar    *tar.Writer
	failed failures
	large  []sandbox.Info // files that were read by themselves
	links  map[string]bool
	bulks  int64
}

// list finds the tree: the entries below a directory, or the one file.
func (t *treeReader) list(ctx context.Context, name string) ([]sandbox.Info, error) {
	if t.root = spell(name); !path.IsAbs(name) {
		t.root = strings.TrimSuffix(t.dir, "/") + "/" + t.root
	}
	answer, err := t.run(ctx, job{script: listScript, dir: t.start(name), args: []string{spell(name), "all"}, cap: listCap})
	if err != nil {
		return nil, err
	}
	infos, err := listOf(answer)
	if !errors.Is(err, syscall.ENOTDIR) {
		if i := slices.IndexFunc(infos, func(i sandbox.Info) bool { return i.Name == "." }); i > 0 {
			infos = slices.Concat(infos[i:i+1], infos[:i], infos[i+1:])
		}
		return infos, err
	}
	stated, err := t.statMany(ctx, []string{name}, "file")
	if err != nil {
		return nil, err
	}
	st := stated[0]
	var wrong *fs.PathError
	if errors.As(st.Err, &wrong) {
		return nil, wrong.Err
	}
	if st.Err != nil {
		return nil, st.Err
	}
	// Its own link is followed, as ReadFile does, so the file is read where it is.
	t.root, t.single = parentOf(t.root), true
	return []sandbox.Info{st.Info}, nil
}

func parentOf(name string) string {
	name = strings.TrimRight(name, "/")
	return name[:strings.LastIndexByte(name, '/')+1]
}

// step is one part of the stream: entries that need no content from the machine, a pack, or one large file.
type step struct {
	infos []sandbox.Info
	large bool
	pack  chan packed // of a pack
	label string
}

// plan cuts a sorted list into steps.
func plan(infos []sandbox.Info, single bool) []*step {
	var steps []*step
	var last *step
	size, names := int64(0), 0
	for _, info := range infos {
		if info.Mode.IsRegular() && (single || info.Size > packBytes/4) {
			steps, last = append(steps, &step{infos: []sandbox.Info{info}, large: true}), nil
			continue
		}
		if last == nil || size+info.Size > packBytes || names+len(info.Name) > mostArguments || len(last.infos) >= packNames {
			last, size, names = &step{pack: make(chan packed, 1), label: "p" + number(int64(len(steps)))}, 0, 0
			steps = append(steps, last)
		}
		last.infos = append(last.infos, info)
		size += info.Size + 1024
		names += len(info.Name) + 16
	}
	return steps
}

// known leaves out what no archive of ours has: sockets in silence, anything else as a failure.
func (t *treeReader) known(infos []sandbox.Info) []sandbox.Info {
	return slices.DeleteFunc(infos, func(info sandbox.Info) bool {
		switch info.Mode.Type() {
		case 0, fs.ModeDir, fs.ModeSymlink, fs.ModeNamedPipe:
			return false
		case fs.ModeSocket:
		default:
			t.failed.add(info.Name, syscall.EINVAL)
		}
		return true
	})
}

func (t *treeReader) emit(ctx context.Context, infos []sandbox.Info) error {
	ctx, cancel := context.WithCancel(ctx)
	steps := plan(t.known(infos), t.single)
	ahead := make(chan struct{}, packsAhead)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, s := range steps {
			if s.large {
				continue
			}
			select {
			case ahead <- struct{}{}:
			case <-ctx.Done():
				return
			}
			s.pack <- t.fetch(ctx, s.infos, s.label)
		}
	}()
	defer func() { cancel(); <-done }()
	for _, s := range steps {
		if s.large {
			if err := t.bulk(ctx, s.infos[0]); err != nil {
				return err
			}
			continue
		}
		select {
		case p := <-s.pack:
			<-ahead
			if err := t.write(ctx, s.infos, p); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return t.compare(ctx)
}

// write hands one pack over.
func (t *treeReader) write(ctx context.Context, infos []sandbox.Info, p packed) error {
	if p.err != nil {
		return p.err
	}
	for _, info := range infos {
		err := p.failed[info.Name]
		if err != nil {
			t.failed.add(info.Name, err)
		}
		f, packed := p.files[info.Name]
		switch {
		case info.Mode.IsDir(), info.Mode.Type() == fs.ModeNamedPipe && err == nil:
			if !errors.Is(err, syscall.ENOENT) {
				if werr := t.tar.WriteHeader(headerOf(info)); werr != nil {
					return werr
				}
			}
		case packed:
			if err := t.entry(f); err != nil {
				return err
			}
		case p.alone[info.Name]:
			if err := t.bulk(ctx, info); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *treeReader) entry(f packedFile) error {
	h := f.header
	if h.Typeflag == tar.TypeLink && !t.links[h.Linkname] {
		// The file that it is another name of did not get through.
		t.failed.add(h.Name, syscall.ENOENT)
		return nil
	}
	if t.links == nil {
		t.links = map[string]bool{}
	}
	t.links[h.Name] = true
	if err := t.tar.WriteHeader(h); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	if _, err := t.tar.Write(f.content); err != nil {
		return err
	}
	return t.pad(h.Size - int64(len(f.content)))
}

// pad fills an entry up whose file came short.
func (t *treeReader) pad(n int64) error {
	zeros := make([]byte, min(n, 64<<10))
	for n > 0 {
		k, err := t.tar.Write(zeros[:min(n, int64(len(zeros)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

// bulk hands one large file over. Its header goes out when its size is known, so a file that cannot be read leaves no trace.
func (t *treeReader) bulk(ctx context.Context, info sandbox.Info) error {
	t.bulks++
	had, begun := int64(0), false
	o := t.operation
	o.dir = t.root
	err := o.readBulk(ctx, spell("./"+info.Name), sandbox.Part{Limit: math.MaxInt64 >> 1}, info.Size, "b"+number(t.bulks), func(size int64) error {
		begun, info.Size = true, size
		return t.tar.WriteHeader(headerOf(info))
	}, func(data []byte) error {
		n, err := t.tar.Write(data)
		had += int64(n)
		return err
	})
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		return err
	}
	if begun {
		if err := t.pad(info.Size - had); err != nil {
			return err
		}
	}
	switch {
	case err != nil:
		t.failed.add(info.Name, errno)
	case had < info.Size:
		t.failed.add(info.Name, errChanged)
	default:
		t.large = append(t.large, info)
	}
	return nil
}

// errChanged is what is said of a file that was not the same all the time.
const errChanged = syscall.EIO

// compare looks whether the large files are as they were in the list.
func (t *treeReader) compare(ctx context.Context) error {
	if len(t.large) == 0 {
		return nil
	}
	o := t.operation
	o.dir = t.root
	var names []string
	for _, info := range t.large {
		names = append(names, "./"+info.Name)
	}
	stated, err := o.statMany(ctx, names, "compare")
	if err != nil {
		return err
	}
	for i, st := range stated {
		if was := t.large[i]; st.Err == nil && (st.Info.Size != was.Size || !st.Info.Modified.Equal(was.Modified)) {
			t.failed.add(was.Name, errChanged)
		}
	}
	return nil
}

// headerOf is an entry's header by its listing.
func headerOf(info sandbox.Info) *tar.Header {
	h := &tar.Header{
		Name: info.Name, Mode: int64(info.Mode.Perm()), ModTime: info.Modified, Uid: info.UID, Gid: info.GID, Size: info.Size,
		Typeflag: tar.TypeReg,
	}
	for bit, mode := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if info.Mode&bit != 0 {
			h.Mode |= mode
		}
	}
	switch info.Mode.Type() {
	case fs.ModeDir:
		h.Typeflag, h.Size, h.Name = tar.TypeDir, 0, h.Name+"/"
	case fs.ModeNamedPipe:
		h.Typeflag, h.Size = tar.TypeFifo, 0
	}
	return h
}
