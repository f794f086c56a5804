package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// maxLinks is the kernel's own bound on links in one path.
const maxLinks = 40

// Resolve follows the links of a slash-separated path as a process inside the root would: an absolute link means the
// root, and ".." stops there. The answer is relative to the root, has no link in it, and names what may not exist
// yet. It is a snapshot: a caller that others may race with must still use the os.Root, which holds the border.
func Resolve(root *os.Root, name string) (string, error) {
	todo := strings.Split(strings.TrimPrefix(path.Clean("/"+name), "/"), "/")
	at, links := ".", 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		info, err := root.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) || (err == nil && info.Mode()&fs.ModeSymlink == 0) {
			at = next
			continue
		}
		if err != nil {
			return "", fmt.Errorf("look at %q: %w", next, err)
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%q: too many links", name)
		}
		target, err := root.Readlink(next)
		if err != nil {
			return "", fmt.Errorf("read the link %q: %w", next, err)
		}
		if strings.HasPrefix(target, "/") {
			at = "."
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return at, nil
}
