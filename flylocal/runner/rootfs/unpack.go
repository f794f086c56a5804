package rootfs

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"strings"
	"time"
)

const (
	whiteoutPrefix = ".wh."
	opaqueMarker   = ".wh..wh..opq"
)

// unpacker applies layers to one root.
type unpacker struct {
	root    *os.Root
	options Options
	report  Report
	// written are the paths that the current layer has made, and their directories: whiteouts in it hide only what
	// lies below.
	written map[string]bool
	// dirs get their final modes and times at the end: a read-only directory must take its children first.
	dirs map[string]dirMeta
}

type dirMeta struct {
	mode fs.FileMode
	time time.Time
}

func (u *unpacker) apply(layer io.Reader) error {
	u.written = map[string]bool{}
	if u.dirs == nil {
		u.dirs = map[string]dirMeta{}
	}
	r := tar.NewReader(layer)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read tar: %w", err)
		}
		if u.report.Entries++; u.report.Entries > u.options.Limits.Entries {
			return fmt.Errorf("%w: %d entries", ErrTooBig, u.options.Limits.Entries)
		}
		if err := u.entry(header, r); err != nil {
			return fmt.Errorf("%q: %w", header.Name, err)
		}
	}
}

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if name == "." && h.Typeflag != tar.TypeDir {
		return errors.New("the image's root is not a directory")
	}
	if name == "." {
		return u.metadata(".", h)
	}
	parent, err := u.parent(name)
	if err != nil {
		return err
	}
	base := path.Base(name)
	if base == opaqueMarker {
		return u.clear(parent)
	}
	if hidden, ok := strings.CutPrefix(base, whiteoutPrefix); ok {
		return u.whiteout(parent, hidden)
	}
	name = path.Join(parent, base)
	made, err := u.create(name, h, content)
	if err != nil || !made {
		return err
	}
	for at := name; at != "."; at = path.Dir(at) {
		u.written[at] = true
	}
	return u.metadata(name, h)
}

// cleanName makes an entry's name relative to the root. A name that climbs is refused rather than bent: no tool
// that builds images makes one.
func cleanName(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errors.New("the name leads out of the image")
		}
	}
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if name == "" {
		return ".", nil
	}
	return name, nil
}

// parent resolves the directory of name as the running machine would, absolute links meaning the image's root, and
// makes what is missing. The result has no link in it.
func (u *unpacker) parent(name string) (string, error) {
	dir, err := Resolve(u.root, path.Dir(name))
	if err != nil {
		return "", err
	}
	if dir == "." {
		return dir, nil
	}
	at := "."
	for part := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, part)
		info, err := u.root.Lstat(at)
		if err == nil && info.IsDir() {
			continue
		}
		if err == nil {
			// A directory in this layer where a lower one has a file: the directory wins.
			err = u.root.Remove(at)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err == nil {
			err = u.root.Mkdir(at, 0o755)
		}
		if err != nil {
			return "", fmt.Errorf("make its directory: %w", err)
		}
	}
	return dir, nil
}

// clear removes what lower layers put into dir.
func (u *unpacker) clear(dir string) error {
	f, err := u.root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := u.whiteout(dir, n); err != nil {
			return err
		}
	}
	return nil
}

// whiteout removes name from dir unless this layer made it; then only what lower layers left below it.
func (u *unpacker) whiteout(dir, name string) error {
	if name == "" || name == "." || name == ".." {
		return errors.New("a whiteout without a name")
	}
	at := path.Join(dir, name)
	if !u.written[at] {
		return u.remove(at)
	}
	if info, err := u.root.Lstat(at); err != nil || !info.IsDir() {
		return err
	}
	return u.clear(at)
}

func (u *unpacker) remove(name string) error {
	info, err := u.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = u.root.RemoveAll(name)
	}
	if err != nil {
		return fmt.Errorf("remove what a lower layer has there: %w", err)
	}
	if info.IsDir() {
		maps.DeleteFunc(u.dirs, func(dir string, _ dirMeta) bool {
			return dir == name || strings.HasPrefix(dir, name+"/")
		})
	}
	return nil
}

// create makes the entry itself, in place of what is there; false for one that is left out.
func (u *unpacker) create(name string, h *tar.Header, content io.Reader) (bool, error) {
	if h.Typeflag == tar.TypeDir {
		return true, u.directory(name)
	}
	var link string
	if h.Typeflag == tar.TypeLink {
		// The target is resolved before anything is removed: it may be the very name.
		var err error
		if link, err = u.linkTarget(h.Linkname); err != nil {
			return false, err
		}
		if link == name {
			return false, nil
		}
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeLink, tar.TypeSymlink, tar.TypeGNUSparse:
	default:
		u.report.Skipped++
		return false, nil
	}
	if err := u.remove(name); err != nil {
		return false, err
	}
	switch h.Typeflag {
	case tar.TypeLink:
		return true, u.root.Link(link, name)
	case tar.TypeSymlink:
		return true, u.root.Symlink(h.Linkname, name)
	}
	return true, u.file(name, h.Size, content)
}

func (u *unpacker) directory(name string) error {
	info, err := u.root.Lstat(name)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		err = u.remove(name)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	return u.root.Mkdir(name, 0o755)
}

func (u *unpacker) linkTarget(target string) (string, error) {
	name, err := cleanName(target)
	if err != nil {
		return "", fmt.Errorf("hard link to %q: %w", target, err)
	}
	dir, err := Resolve(u.root, path.Dir(name))
	if err != nil {
		return "", err
	}
	return path.Join(dir, path.Base(name)), nil
}

func (u *unpacker) file(name string, size int64, content io.Reader) error {
	if size > u.options.Limits.Bytes-u.report.Bytes {
		return fmt.Errorf("%w: %d bytes", ErrTooBig, u.options.Limits.Bytes)
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, content)
	u.report.Bytes += n
	return errors.Join(err, f.Close())
}

// metadata applies owner, mode and time, in this order: a change of owner clears set-user-id bits.
func (u *unpacker) metadata(name string, h *tar.Header) error {
	if h.Typeflag == tar.TypeLink {
		return nil // the file's own entry has said it
	}
	switch {
	case u.options.Owners:
		if err := u.root.Lchown(name, h.Uid, h.Gid); err != nil {
			return fmt.Errorf("give it to %d:%d: %w", h.Uid, h.Gid, err)
		}
	case h.Uid != 0 || h.Gid != 0:
		if u.report.Owners == nil {
			u.report.Owners = map[string]string{}
		}
		u.report.Owners[name] = fmt.Sprintf("%d:%d", h.Uid, h.Gid)
	}
	if h.Typeflag == tar.TypeSymlink {
		return nil
	}
	mode := h.FileInfo().Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	if h.Typeflag == tar.TypeDir {
		if !u.options.Owners {
			mode |= 0o700
		}
		u.dirs[name] = dirMeta{mode, h.ModTime}
		return nil
	}
	if err := u.root.Chmod(name, mode); err != nil {
		return err
	}
	return u.setTime(name, h.ModTime)
}

func (u *unpacker) setTime(name string, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	return u.root.Chtimes(name, t, t)
}

// finish gives directories their modes and times.
func (u *unpacker) finish() error {
	for name, meta := range u.dirs {
		if err := u.setTime(name, meta.time); err != nil {
			return fmt.Errorf("directory %q: %w", name, err)
		}
		if err := u.root.Chmod(name, meta.mode); err != nil {
			return fmt.Errorf("directory %q: %w", name, err)
		}
	}
	return nil
}
