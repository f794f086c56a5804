package transfer

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// kind of an entry.
type kind int

const (
	absent kind = iota
	file
	directory
	link
	other // fifos, sockets, devices: never copied
)

func kindOf(mode fs.FileMode) kind {
	switch mode.Type() {
	case 0:
		return file
	case fs.ModeDir:
		return directory
	case fs.ModeSymlink:
		return link
	}
	return other
}

// entry is one name below a side's directory; "." is the directory itself.
type entry struct {
	name string
	kind kind
	size int64
	mode fs.FileMode // permission bits
	// modified has the precision of a second, as a sandbox's times have.
	modified time.Time
	target   string // of a link
}

// large files are copied in pieces, and go on where a cut left them.
func (e entry) large() bool { return e.size > smallFile }

// checkEntry refuses names that do not lie below the directory. The other end may be hostile: what it lists is only believed to be bytes.
func checkEntry(e entry) error {
	if e.name == "." {
		return nil
	}
	if e.name == "" || path.IsAbs(e.name) || path.Clean(e.name) != e.name || strings.HasPrefix(e.name+"/", "../") || strings.IndexByte(e.name, 0) >= 0 {
		return fmt.Errorf("the name %s leads out of the directory: %w", strconv.Quote(e.name), syscall.EINVAL)
	}
	if strings.HasPrefix(path.Base(e.name), partPrefix) {
		return errPart
	}
	return nil
}

// Printable is a name for a terminal: as it is, or quoted when it holds what a terminal would act on.
func Printable(name string) string {
	for _, r := range name {
		if !strconv.IsPrint(r) || r == '\uFFFD' {
			return strconv.Quote(name)
		}
	}
	return name
}
