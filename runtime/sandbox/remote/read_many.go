package remote

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// ReadFiles reads each file by itself: a look at all of them, then the small ones together and each large one alone.
func (s *Sandbox) ReadFiles(ctx context.Context, names []string, limit int64) ([]sandbox.Read, error) {
	o, err := s.begin(ctx, "read")
	if err != nil {
		return nil, err
	}
	if limit < 0 {
		return nil, syscall.EINVAL
	}
	stated, err := o.statMany(ctx, names, "")
	if err != nil {
		return nil, err
	}
	r := reads{operation: o, names: names, limit: limit, out: make([]sandbox.Read, len(names))}
	budget := int64(sandbox.MaxRead)
	for i, st := range stated {
		size, err := sizeOf(st, limit)
		if err == nil && size > budget {
			err = syscall.EFBIG
		}
		if err != nil {
			r.out[i].Err = o.about(names[i], err)
			continue
		}
		budget -= size
		if err := r.add(ctx, i, size); err != nil {
			return nil, err
		}
	}
	if err := r.flush(ctx); err != nil {
		return nil, err
	}
	return r.out, nil
}

// sizeOf is how much of a file there is to read, or why it cannot be.
func sizeOf(st sandbox.Stated, limit int64) (int64, error) {
	var wrong *fs.PathError
	switch {
	case errors.As(st.Err, &wrong):
		return 0, wrong.Err
	case st.Err != nil:
		return 0, st.Err
	case st.Info.Mode.IsDir():
		return 0, syscall.EISDIR
	case st.Info.Mode.Type() == fs.ModeSymlink:
		return 0, syscall.ENOENT
	case !st.Info.Mode.IsRegular():
		return 0, syscall.EINVAL
	}
	if limit > 0 {
		return min(st.Info.Size, limit), nil
	}
	return st.Info.Size, nil
}

// reads is a ReadFiles under way.
type reads struct {
	operation

	names []string
	limit int64
	out   []sandbox.Read

	batch    []int
	rooted   bool // the batch's names are from the root
	size     int64
	argument int
	jobs     int64
}

func (r *reads) label() string {
	r.jobs++
	return "r" + number(r.jobs)
}

func (r *reads) add(ctx context.Context, i int, size int64) error {
	name := r.names[i]
	if size > mostTogether {
		return r.alone(ctx, i)
	}
	full := r.size+size > smallRead || r.argument+len(name) > mostArguments || len(r.batch) >= mostFiles
	if len(r.batch) > 0 && (full || r.rooted != path.IsAbs(name)) {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	r.batch, r.size, r.argument, r.rooted = append(r.batch, i), r.size+size, r.argument+len(name)+8, path.IsAbs(name)
	return nil
}

func (r *reads) ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (r *reads) alone(ctx context.Context, i int) error {
	content, err := r.readFile(ctx, r.names[i], sandbox.Part{Limit: r.limit}, r.label())
	r.out[i].Content = content
	r.out[i].Err, err = apart(r.about(r.names[i], err))
	return err
}

// flush reads the batch. Files that have grown beyond what it has room for are read alone.
func (r *reads) flush(ctx context.Context) error {
	batch := r.batch
	r.batch, r.size, r.argument = nil, 0, 0
	if len(batch) == 0 {
		return r.ended(ctx)
	}
	most := int64(mostTogether + block)
	if r.limit > 0 {
		most = min(most, r.limit)
	}
	args := []string{number(most)}
	for _, i := range batch {
		args = append(args, spell(r.names[i]))
	}
	var beside []byte
	content, err := r.run(ctx, job{
		script: readsScript, part: r.label(), dir: r.start(r.names[batch[0]]), args: args, beside: &beside,
		cap: 2 * smallRead, most: 2 * smallRead,
	})
	var parts []sandbox.Read
	if err == nil {
		parts, err = contentsOf(content, beside, len(batch))
	}
	if err != nil && !errors.Is(err, errTooLarge) && !errors.Is(err, errGap) && !errors.Is(err, errTorn) {
		return err
	}
	for k, i := range batch {
		if err != nil || int64(len(parts[k].Content)) > mostTogether {
			if err := r.alone(ctx, i); err != nil {
				return err
			}
			continue
		}
		r.out[i] = sandbox.Read{Content: parts[k].Content, Err: r.about(r.names[i], parts[k].Err)}
	}
	return r.ended(ctx)
}

// contentsOf tells contents apart by what was said beside them: for each a line "= ok" or "= ERRNO", and for ok a line of dd that
// begins with the number of bytes.
func contentsOf(content, beside []byte, want int) ([]sandbox.Read, error) {
	var out []sandbox.Read
	for line := range bytes.Lines(beside) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if word, ok := bytes.CutPrefix(line, []byte("= ")); ok {
			if string(word) == "EIO" && len(out) > 0 {
				out[len(out)-1] = sandbox.Read{Err: syscall.EIO}
				continue
			}
			r := sandbox.Read{}
			if string(word) != "ok" {
				errno, known := errnos[string(word)]
				if !known {
					return nil, errTorn
				}
				r.Err = errno
			}
			out = append(out, r)
			continue
		}
		digits, _, said := bytes.Cut(line, []byte(" byte"))
		if !said || len(out) == 0 {
			continue
		}
		n, err := strconv.ParseInt(string(digits), 10, 64)
		if err != nil {
			continue
		}
		last := &out[len(out)-1]
		if last.Err != nil || last.Content != nil || n > int64(len(content)) {
			return nil, errTorn
		}
		last.Content, content = append([]byte{}, content[:n]...), content[n:]
	}
	if len(out) != want || len(content) > 0 {
		return nil, errTorn
	}
	for i := range out {
		if out[i].Err == nil && out[i].Content == nil {
			out[i].Err = syscall.EIO
		}
	}
	return out, nil
}
