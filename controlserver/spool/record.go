//go:build linux

package spool

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// ErrUnknown says that the spool has no such exec, or has only the directory of one.
var ErrUnknown = errors.New("exec is not in the spool")

// maxRecord bounds what is read of one state file: a request's size, as JSON, and room for events.
const maxRecord = 4 * wire.MaxRequestBytes

// Record is the form in which a request is kept: without values of the environment and without the
// content of an inline stdin, whose length and hash stand in for it. IfEpoch becomes the epoch under
// which it runs.
func Record(r *wirev1.ExecRequest, epoch string) ([]byte, error) {
	kept, _ := proto.Clone(r).(*wirev1.ExecRequest)
	kept.IfEpoch = epoch
	kept.From = nil
	for _, list := range [][]*wirev1.EnvVar{kept.GetSpec().GetEnv(), kept.GetSpec().GetSecretEnv()} {
		for _, v := range list {
			v.Value = nil
		}
	}
	if in := kept.GetSpec().GetStdin(); in.GetMode() == wirev1.StdinMode_STDIN_MODE_INLINE {
		sum := sha256.Sum256(in.GetInline())
		in.Length, in.Sha256, in.Inline = uint64(len(in.GetInline())), sum[:], nil
	}
	b, err := protojson.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("record a request: %w", err)
	}
	return b, nil
}

// Request reads back what was asked. ErrUnknown when it is not on record.
func (st State) Request() (*wirev1.ExecRequest, error) {
	if st.spec == "" {
		return nil, ErrUnknown
	}
	r := new(wirev1.ExecRequest)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(st.spec), r); err != nil {
		return nil, fmt.Errorf("the record of a request is damaged: %w", err)
	}
	return r, nil
}

// Exit reads the final record; nil while there is none.
func (st State) Exit() (*wirev1.Exit, error) {
	if st.exit == "" {
		return nil, nil
	}
	exit := new(wirev1.Exit)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(st.exit), exit); err != nil {
		return nil, fmt.Errorf("the record of an exit is damaged: %w", err)
	}
	return exit, nil
}

// AppendExit stores the final record. The first one stays.
func (s *Spool) AppendExit(id string, exit *wirev1.Exit) error {
	b, err := protojson.Marshal(exit)
	if err != nil {
		return fmt.Errorf("record an exit: %w", err)
	}
	return s.appendState(id, "exit "+string(b))
}

func readFile(path string) ([]byte, error) {
	f, err := OpenFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRecord))
}

// WriteClock stores how much of an exec's time limits has passed.
func (s *Spool) WriteClock(id string, clock []byte) error {
	if err := s.replace(s.File(id, "clock"), clock); err != nil {
		return fmt.Errorf("write clock: %w", err)
	}
	return nil
}
