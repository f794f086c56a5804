package guest

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// user is who a process runs as.
type user struct {
	uid, gid uint32
	groups   []uint32
	home     string
}

// root is who commands of the Machines API run as.
var root = user{home: "/root"}

// lookUpUser reads an image's USER ("name", "uid", either with ":group") with the machine's own passwd and group
// files, as container engines do: a number needs no entry, a name does.
func lookUpUser(spec string) (user, error) {
	passwd, err := readTable("/etc/passwd", 7)
	if err != nil {
		return user{}, err
	}
	name, group, hasGroup := strings.Cut(spec, ":")
	if name == "" {
		name = "0"
	}
	u := user{home: "/"}
	var entry []string
	for _, f := range passwd {
		if f[0] == name || (entry == nil && f[2] == name) {
			entry = f
			if f[0] == name {
				break
			}
		}
	}
	if entry == nil {
		if u.uid, err = id(name); err != nil {
			return user{}, fmt.Errorf("the image's user %q is not in its /etc/passwd", name)
		}
	} else {
		uid, uerr := id(entry[2])
		gid, gerr := id(entry[3])
		if err := errors.Join(uerr, gerr); err != nil {
			return user{}, fmt.Errorf("user %q in /etc/passwd: %w", name, err)
		}
		u.uid, u.gid = uid, gid
		if entry[5] != "" {
			u.home = entry[5]
		}
	}
	return withGroups(u, entry, group, hasGroup)
}

// withGroups applies an explicit group, or the supplementary groups of a user known by name.
func withGroups(u user, entry []string, group string, explicit bool) (user, error) {
	groups, err := readTable("/etc/group", 4)
	if err != nil {
		return user{}, err
	}
	if explicit {
		for _, f := range groups {
			if f[0] == group {
				group = f[2]
				break
			}
		}
		if u.gid, err = id(group); err != nil {
			return user{}, fmt.Errorf("the image's group %q is not in its /etc/group", group)
		}
		return u, nil
	}
	if entry == nil {
		return u, nil
	}
	for _, f := range groups {
		for member := range strings.SplitSeq(f[3], ",") {
			if g, err := id(f[2]); err == nil && member == entry[0] {
				u.groups = append(u.groups, g)
			}
		}
	}
	return u, nil
}

func id(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}

// readTable reads the lines of a colon-separated file that have at least the given number of fields. A missing file
// is an empty one.
func readTable(path string, fields int) ([][]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out [][]string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if parts := strings.Split(lines.Text(), ":"); len(parts) >= fields {
			out = append(out, parts)
		}
	}
	return out, lines.Err()
}
