//go:build linux

package spool

import (
	"bytes"
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

// maxRecord bounds what is read of one record: a request's size, as JSON.
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
	return append(b, '\n'), nil
}

// WriteSpec stores a Record.
func (s *Spool) WriteSpec(id string, record []byte) error {
	if err := s.withRoom(func() error { return os.WriteFile(s.File(id, "spec"), record, 0o600) }); err != nil {
		return fmt.Errorf("write spec: %w", err)
	}
	return nil
}

// Spec reads the request of an exec back. ErrUnknown when there is none; another error when it is
// unreadable.
func (s *Spool) Spec(id string) (*wirev1.ExecRequest, error) {
	b, err := readFile(s.File(id, "spec"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, fmt.Errorf("read spec: %w", err)
	}
	r := new(wirev1.ExecRequest)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("spec of exec %s is damaged: %w", id, err)
	}
	return r, nil
}

// WriteExit stores the final record, whole or not at all.
func (s *Spool) WriteExit(id string, exit *wirev1.Exit) error {
	b, err := protojson.Marshal(exit)
	if err != nil {
		return fmt.Errorf("record an exit: %w", err)
	}
	if err := s.replace(s.File(id, "exit"), append(b, '\n')); err != nil {
		return fmt.Errorf("write exit: %w", err)
	}
	return nil
}

// Exit reads the final record; nil while there is none. A torn one (the kernel died while the name was
// there and the content was not) counts as none.
func (s *Spool) Exit(id string) (*wirev1.Exit, error) {
	b, err := readFile(s.File(id, "exit"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read exit: %w", err)
	}
	exit := new(wirev1.Exit)
	if !bytes.HasSuffix(b, []byte("\n")) {
		return nil, nil
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, exit); err != nil {
		return nil, nil //nolint:nilerr // torn: as if it were not there
	}
	return exit, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
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
