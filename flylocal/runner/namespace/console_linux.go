package namespace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxConsole is the size at which the console starts a new file and keeps the last one as console.log.1.
const maxConsole = 16 << 20

// saveConsole appends what the machine writes to console.log until the machine is gone. On an error it reads on, so
// that no process of the machine hangs on a full pipe.
func saveConsole(from *os.File, dir string) error {
	defer from.Close()
	path := filepath.Join(dir, "console.log")
	for {
		more, err := fillConsole(from, path)
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

// fillConsole writes until the file is full (true) or the console has ended.
func fillConsole(from io.Reader, path string) (full bool, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	_, err = io.CopyN(f, from, max(0, maxConsole-info.Size()))
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}
