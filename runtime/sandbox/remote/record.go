package remote

import (
	"bytes"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// record is one line of a script's answer: a letter, numbers or a word, a name, and "//\n" as its end. No name holds two
// slashes in a row (spell sees to that, and find never says one), so a name may hold any other byte, a newline too.
type record struct {
	// kind: l a path itself, f what a link leads to, e an error, d a directory that was made, s, t and z marks, x an exit code and a time.
	kind byte
	name string       // of x the time
	info sandbox.Info // of l and f, without Name
	err  error        // of e
	code int          // of x
}

var recordEnd = []byte("//\n")

// cutRecord reads the first record of data.
func cutRecord(data []byte) (record, []byte, error) {
	i := bytes.Index(data, recordEnd)
	if i < 2 || data[1] != ' ' {
		return record{}, nil, errTorn
	}
	line, rest := data[2:i], data[i+len(recordEnd):]
	r := record{kind: data[0]}
	switch r.kind {
	case 'l', 'f':
		var ok bool
		if r.info, r.name, ok = statOf(line); !ok {
			return record{}, nil, errTorn
		}
	case 'e':
		word, name, ok := bytes.Cut(line, []byte(" "))
		errno, known := errnos[string(word)]
		if !ok || !known {
			return record{}, nil, errTorn
		}
		r.err, r.name = errno, string(name)
	case 'd':
		if r.name = string(line); r.name == "" {
			return record{}, nil, errTorn
		}
	case 's', 't', 'z':
		if len(line) > 0 {
			return record{}, nil, errTorn
		}
	case 'x':
		word, at, ok := strings.Cut(string(line), " ")
		code, err := strconv.Atoi(word)
		if err != nil || !ok {
			return record{}, nil, errTorn
		}
		r.code, r.name = code, at
	default:
		return record{}, nil, errTorn
	}
	return r, rest, nil
}

// records reads all of an answer.
func records(data []byte) ([]record, error) {
	var all []record
	for len(data) > 0 {
		r, rest, err := cutRecord(data)
		if err != nil {
			return nil, err
		}
		all, data = append(all, r), rest
	}
	return all, nil
}

// statOf reads mode (hex, as the kernel has it), size, time, owner, group, number of names, and the name.
func statOf(line []byte) (sandbox.Info, string, bool) {
	var f [6]int64
	for i := range f {
		word, rest, ok := bytes.Cut(line, []byte(" "))
		if !ok {
			return sandbox.Info{}, "", false
		}
		base := 10
		if i == 0 {
			base = 16
		}
		n, err := strconv.ParseInt(string(word), base, 64)
		if err != nil {
			return sandbox.Info{}, "", false
		}
		f[i], line = n, rest
	}
	info := sandbox.Info{
		Size: f[1], Mode: modeOf(uint32(f[0])), Modified: time.Unix(f[2], 0), UID: int(f[3]), GID: int(f[4]), Links: int(f[5]),
	}
	if !info.Mode.IsRegular() {
		info.Size = 0
	}
	return info, string(line), len(line) > 0
}

// modeOf translates a mode of the kernel.
func modeOf(raw uint32) fs.FileMode {
	mode := fs.FileMode(raw & 0o777)
	switch raw & syscall.S_IFMT {
	case syscall.S_IFDIR:
		mode |= fs.ModeDir
	case syscall.S_IFLNK:
		mode |= fs.ModeSymlink
	case syscall.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case syscall.S_IFSOCK:
		mode |= fs.ModeSocket
	case syscall.S_IFBLK:
		mode |= fs.ModeDevice
	case syscall.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case syscall.S_IFREG:
	default:
		mode |= fs.ModeIrregular
	}
	if raw&syscall.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if raw&syscall.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if raw&syscall.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}
