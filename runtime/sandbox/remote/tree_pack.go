package remote

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// packed is what one exec packed.
type packed struct {
	files  map[string]packedFile
	failed map[string]error
	alone  map[string]bool // to be read by themselves: they have grown
	err    error
}

type packedFile struct {
	header  *tar.Header
	content []byte
}

func (p *packed) join(q packed) {
	for name, f := range q.files {
		p.files[name] = f
	}
	for name, err := range q.failed {
		p.failed[name] = err
	}
	for name := range q.alone {
		p.alone[name] = true
	}
	p.err = q.err
}

// fetch packs files and links, again for those behind one at which the machine's tar gave up.
func (t *treeReader) fetch(ctx context.Context, infos []sandbox.Info, label string) packed {
	all := packed{files: map[string]packedFile{}, failed: map[string]error{}, alone: map[string]bool{}}
	for len(infos) > 0 {
		p, rest := t.fetchOnce(ctx, infos, label)
		all.join(p)
		if all.err != nil || len(rest) >= len(infos) {
			return all
		}
		infos, label = rest, label+"+"
	}
	return all
}

func (t *treeReader) fetchOnce(ctx context.Context, infos []sandbox.Info, label string) (packed, []sandbox.Info) {
	p := packed{files: map[string]packedFile{}, failed: map[string]error{}, alone: map[string]bool{}}
	var args []string
	for _, info := range infos {
		if info.Mode.Type() != fs.ModeNamedPipe {
			args = append(args, spell("./"+info.Name))
		}
	}
	if len(args) == 0 {
		return p, nil
	}
	var beside []byte
	answer, err := t.run(ctx, job{
		script: packScript, part: label, dir: t.root, args: args, cap: packRoom, most: packRoom, beside: &beside,
	})
	if errors.Is(err, errTooLarge) || errors.Is(err, errGap) {
		for _, info := range infos {
			p.alone[info.Name] = info.Mode.IsRegular()
			if info.Mode.Type() == fs.ModeSymlink {
				p.failed[info.Name] = errChanged
			}
		}
		return p, nil
	}
	if err == nil {
		err = p.unpack(answer)
	}
	var after []record
	if err == nil {
		after, err = records(beside)
	}
	if err != nil {
		p.err = t.about(t.root, err)
		return p, nil
	}
	return p, p.judge(infos, after)
}

// unpack reads records, and the archive as far as it goes.
func (p *packed) unpack(answer []byte) error {
	for {
		r, rest, err := cutRecord(answer)
		if err != nil {
			// The directory itself could not be entered.
			if _, _, status := statusOf(answer); status != nil {
				return status
			}
			return err
		}
		answer = rest
		if r.kind == 't' {
			break
		}
		p.failed[local(r.name)] = r.err
	}
	archive := tar.NewReader(bytes.NewReader(answer))
	for {
		h, err := archive.Next()
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return nil //nolint:nilerr // the end, or where the machine's tar gave up: judge sees what is missing
		}
		content, err := io.ReadAll(archive)
		f := packedFile{header: ours(h), content: content}
		p.files[f.header.Name] = f
		if err != nil {
			p.failed[f.header.Name] = errChanged
			return nil //nolint:nilerr // a part of the file came: that is told of the file
		}
	}
}

// local is a name of the machine's, relative to the tree.
func local(name string) string { return strings.TrimPrefix(name, "./") }

// ours is the header that goes out for one of the machine's tar.
func ours(h *tar.Header) *tar.Header {
	out := &tar.Header{
		Typeflag: h.Typeflag, Name: local(h.Name), Linkname: h.Linkname, Size: h.Size, Mode: h.Mode & 0o7777, Uid: h.Uid, Gid: h.Gid,
		ModTime: h.ModTime.Truncate(time.Second),
	}
	if h.Typeflag == tar.TypeLink {
		out.Linkname, out.Size = local(h.Linkname), 0
	}
	return out
}

// judge finds what changed, what is missing, and what is to be asked for again.
func (p *packed) judge(infos []sandbox.Info, after []record) []sandbox.Info {
	now := map[string]sandbox.Info{}
	whole := false
	for _, r := range after {
		switch r.kind {
		case 'l':
			now[local(r.name)] = r.info
		case 'z':
			whole = true
		}
	}
	var rest []sandbox.Info
	for _, info := range infos {
		if info.Mode.IsDir() || info.Mode.Type() == fs.ModeNamedPipe || p.failed[info.Name] != nil {
			continue
		}
		f, packed := p.files[info.Name]
		is, there := now[info.Name]
		switch {
		case !packed && (!there && whole):
			p.failed[info.Name] = syscall.ENOENT
		case !packed:
			rest = append(rest, info)
		case there && f.header.Typeflag == tar.TypeReg && (is.Size != f.header.Size || !is.Modified.Equal(f.header.ModTime)):
			p.failed[info.Name] = errChanged
		}
	}
	if len(p.files) == 0 && len(rest) > 0 {
		// Nothing came: without this the same would be asked for again and again.
		p.failed[rest[0].Name] = syscall.EIO
		rest = rest[1:]
	}
	return rest
}
