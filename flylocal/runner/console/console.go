// Package console keeps what a machine prints.
package console

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxSize is the size at which a console starts a new file and keeps the last one as console.log.1.
const maxSize = 16 << 20

// Save appends what comes from the machine to console.log in dir, until the machine is gone, and closes from. On an
// error it reads on, so that no process of the machine hangs on a full pipe.
func Save(from *os.File, dir string) error {
	defer from.Close()
	path := filepath.Join(dir, "console.log")
	for {
		more, err := fill(from, path)
		if err != nil {
			_, _ = io.Copy(io.Discard, from)
			return fmt.Errorf("save the machine's console: %w", err)
		}
		if !more {
			return nil
		}
		if err := os.Rename(path, path+".1"); err != nil {
			return fmt.Errorf("begin a new console file: %w", err)
		}
	}
}

// fill writes until the file is full (true) or the console has ended.
func fill(from io.Reader, path string) (full bool, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	_, err = io.CopyN(f, from, max(0, maxSize-info.Size()))
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}
