//go:build linux

package server

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// A pump that keeps only the tail gives bytes up while a reader is about to send them: between the reader's
// look at the book and its read they turn into zeroes.
func TestBytesGivenUpUnderAReaderAreAGapAndNeverZeroes(t *testing.T) {
	const size = 3 << 20
	for name, tail := range map[string]uint64{
		"beyond the piece that is read": 1 << 20, "in the midst of it": 100 << 10, "all there is": size,
	} {
		t.Run(name, func(t *testing.T) {
			e := testExec(t)
			content := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
			if err := os.WriteFile(e.out.path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			e.out.end.Store(size)
			e.finish(&wirev1.Exit{StdoutEnd: size})
			file, err := os.OpenFile(e.out.path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			var at uint64
			gaps := 0
			sub := newSubscriber(e, nil, true, &outlet{send: func(m *wirev1.Event) error {
				if g := m.GetGap(); g != nil {
					if g.GetFrom() != 0 || g.GetTo() != tail || g.GetReason() != wirev1.GapReason_GAP_REASON_CAP {
						t.Errorf("got %v", g)
					}
					gaps++
					at = g.GetTo()
				}
				if c := m.GetChunk(); c != nil {
					if c.GetOffset() != at || !bytes.Equal(c.GetData(), content[at:at+uint64(len(c.GetData()))]) {
						t.Errorf("a chunk at %d, where %d was due, has other bytes: %q", c.GetOffset(), at, c.GetData()[:8])
					}
					at += uint64(len(c.GetData()))
				}
				return nil
			}})
			sub.readers[0].file = &punched{spoolFile: file, punch: func() error {
				if err := e.out.book.GiveUp(tail); err != nil {
					return err
				}
				return unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(tail))
			}}
			if err := sub.run(t.Context(), nil, func() (<-chan struct{}, error) { return nil, nil }); err != nil {
				t.Fatal(err)
			}
			if gaps != 1 || at != size {
				t.Fatalf("%d gaps, and bytes up to %d of %d", gaps, at, size)
			}
		})
	}
}

// punched is a file whose oldest bytes are given up just before its first read.
type punched struct {
	spoolFile
	punch func() error
}

func (p *punched) ReadAt(b []byte, at int64) (int, error) {
	if p.punch != nil {
		if err := p.punch(); err != nil {
			return 0, err
		}
		p.punch = nil
	}
	return p.spoolFile.ReadAt(b, at)
}
