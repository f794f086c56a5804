package local

import (
	"errors"
	"path/filepath"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// mostRecorded is the most bytes of an archive that Once remembers.
const mostRecorded = 512 << 20

// recording is a stream that is kept to be given again.
type recording struct {
	tape *tape
	size int64
	err  error
}

func (s *Sandbox) newRecording() *recording {
	return &recording{tape: newTape(filepath.Join(s.spool, s.once+".tar"), mostRecorded)}
}

func (r *recording) Write(p []byte) (int, error) {
	if r.size += int64(len(p)); r.size > mostRecorded {
		r.err = &sandbox.UnavailableError{Reason: "the archive is too large to be remembered", Err: syscall.EFBIG}
		return 0, r.err
	}
	if err := r.tape.add(p); err != nil {
		r.err = &sandbox.UnavailableError{Reason: "the archive cannot be kept", Err: err}
		return 0, r.err
	}
	return len(p), nil
}

// play writes it once more.
func (r *recording) play(m *meter) error {
	buf := make([]byte, 256<<10)
	for at := int64(0); ; {
		n, missing, err := r.tape.read(at, buf)
		if err == nil && missing > 0 {
			err = errors.New("the archive is no longer remembered")
		}
		if err != nil {
			return err
		}
		if n == 0 {
			m.finish()
			return nil
		}
		if _, err := m.Write(buf[:n]); err != nil {
			return err
		}
		at += int64(n)
	}
}
