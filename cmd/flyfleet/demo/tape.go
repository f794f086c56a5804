package demo

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// tape is what a viewer got of one command's output. It counts what it was not told, and what it was told twice.
type tape struct {
	exec string
	// output is both streams of the command in one, as a tool runs it.
	output        bytes.Buffer
	gaps, repeats int64
	exited        *journalv1.ExecExited
	settled       *journalv1.SubmissionSettled
}

// take takes an event.
func (t *tape) take(e *runtimev1.StreamEventsResponse) error {
	switch b := e.GetEntry().GetBody().GetBody().(type) {
	case *journalv1.Body_ExecStarted:
		if t.exec != "" {
			return fmt.Errorf("a second command was started: %s beside %s", b.ExecStarted.GetExecId(), t.exec)
		}
		t.exec = b.ExecStarted.GetExecId()
	case *journalv1.Body_ExecExited:
		t.exited = b.ExecExited
	case *journalv1.Body_ExecLost:
		return fmt.Errorf("the command was lost: %s", b.ExecLost.GetReason())
	case *journalv1.Body_SubmissionSettled:
		t.settled = b.SubmissionSettled
	}
	if o := e.GetOutput(); o != nil {
		if o.GetStream() != runtimev1.OutputStream_OUTPUT_STREAM_STDOUT {
			return fmt.Errorf("output on %v", o.GetStream())
		}
		switch ahead := o.GetOffset() - int64(t.output.Len()); {
		case ahead > 0:
			t.gaps += ahead
		case ahead < 0:
			t.repeats += min(-ahead, o.GetRawLength())
		}
		t.gaps += max(0, o.GetRawLength()-int64(len(o.GetData())))
		t.output.Write(o.GetData())
	}
	return nil
}

// statement is what the command itself said at its end about what it had written before.
type statement struct {
	bytes  int64
	sha256 string
	starts int
}

// statementForm is the last line of the output.
const statementForm = "wrote %d bytes sha256 %s process starts %d"

// parts are the output before the statement, and the statement.
func (t *tape) parts() (before []byte, s statement, err error) {
	all := t.output.Bytes()
	cut := bytes.LastIndexByte(bytes.TrimSuffix(all, []byte("\n")), '\n') + 1
	if _, err := fmt.Sscanf(string(all[cut:]), statementForm, &s.bytes, &s.sha256, &s.starts); err != nil {
		return nil, s, fmt.Errorf("the command's last words are %q: %w", all[cut:], err)
	}
	return all[:cut], s, nil
}

// verdict counts against what the command said: bytes that the viewer lacks, bytes that it has too many.
func (t *tape) verdict() (gap, repeated int64, s statement, err error) {
	before, s, err := t.parts()
	if err != nil {
		return 0, 0, s, err
	}
	gap, repeated = t.gaps, t.repeats
	if missing := s.bytes - int64(len(before)); missing > 0 {
		gap = max(gap, missing)
	} else {
		repeated = max(repeated, -missing)
	}
	sum := sha256.Sum256(before)
	switch {
	case t.exited == nil || t.exited.GetCode() != 0:
		return gap, repeated, s, fmt.Errorf("the command ended with %v", t.exited)
	case gap != 0 || repeated != 0:
		return gap, repeated, s, fmt.Errorf("the viewer lacks %d bytes and got %d twice", gap, repeated)
	case hex.EncodeToString(sum[:]) != s.sha256:
		return gap, repeated, s, fmt.Errorf("the viewer's bytes have the hash %x, the command's own %s", sum, s.sha256)
	}
	return gap, repeated, s, nil
}
