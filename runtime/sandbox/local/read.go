package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// ReadFile returns a part of a file.
func (s *Sandbox) ReadFile(ctx context.Context, name string, part sandbox.Part) ([]byte, error) {
	content, err := once(ctx, s, call("ReadFile", s.dir, name, fmt.Sprint(part)), func() ([]byte, error) {
		return s.read(ctx, name, part)
	})
	if s.once != "" {
		// The ledger keeps its own bytes.
		content = slices.Clone(content)
	}
	return content, err
}

// ReadFiles is ReadFile for each name.
func (s *Sandbox) ReadFiles(ctx context.Context, names []string, limit int64) ([]sandbox.Read, error) {
	all, err := once(ctx, s, call("ReadFiles", append([]string{s.dir, strconv.FormatInt(limit, 10)}, names...)...),
		func() ([]sandbox.Read, error) {
			all := make([]sandbox.Read, len(names))
			left := int64(sandbox.MaxRead)
			for i, name := range names {
				if err := ended(ctx); err != nil {
					return nil, err
				}
				all[i].Content, all[i].Err = s.readWithin(ctx, name, sandbox.Part{Limit: limit}, left)
				left -= int64(len(all[i].Content))
			}
			return all, nil
		})
	if s.once != "" {
		all = slices.Clone(all)
		for i := range all {
			all[i].Content = slices.Clone(all[i].Content)
		}
	}
	return all, err
}

func (p place) read(ctx context.Context, name string, part sandbox.Part) ([]byte, error) {
	return p.readWithin(ctx, name, part, sandbox.MaxRead)
}

// readWithin reads at most so many bytes; a whole that is more is refused.
func (p place) readWithin(ctx context.Context, name string, part sandbox.Part, most int64) ([]byte, error) {
	path, err := p.at(name)
	if err != nil {
		return nil, fault("read", name, err)
	}
	if part.Offset < 0 || part.Limit < 0 {
		return nil, fault("read", name, syscall.EINVAL)
	}
	content, err := readPart(ctx, path, part, most)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fault("read", name, err)
	}
	return content, nil
}

func readPart(ctx context.Context, path string, part sandbox.Part, most int64) ([]byte, error) {
	// Asked before it is opened: opening a device can be an effect.
	info, err := os.Stat(path)
	if err == nil {
		err = readable(info)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err == nil {
		err = readable(info)
	}
	if err != nil {
		return nil, err
	}
	rest := max(0, info.Size()-part.Offset)
	limit := part.Limit
	if limit == 0 {
		if rest > most {
			return nil, syscall.EFBIG
		}
		limit = most + 1
	}
	limit = min(limit, most+1)
	// Files of /proc have no size and content all the same: the end is where reading ends.
	content := make([]byte, 0, min(rest, limit)+512)
	for int64(len(content)) < limit {
		if err := ended(ctx); err != nil {
			return nil, err
		}
		if len(content) == cap(content) {
			content = slices.Grow(content, min(cap(content), 16<<20))
		}
		free := content[len(content):min(int64(cap(content)), limit)]
		n, err := f.ReadAt(free[:min(len(free), 4<<20)], part.Offset+int64(len(content)))
		content = content[:len(content)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if int64(len(content)) > most {
		if part.Limit == 0 {
			return nil, syscall.EFBIG
		}
		content = content[:most]
	}
	return content, nil
}

func readable(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return syscall.EISDIR
	case !info.Mode().IsRegular():
		return syscall.EINVAL
	}
	return nil
}
