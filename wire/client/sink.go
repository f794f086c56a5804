package client

import (
	"io"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Sink takes what a run sees, in order, from one goroutine. Per stream, offsets rise without holes but
// for reported gaps, and no byte comes twice, however often the connection broke. An error ends Run
// with that error in its chain; the command on the machine is not touched.
type Sink interface {
	// Started is called once for a run, when the machine says that the exec has a process.
	Started(*wirev1.Started) error
	// Output hands over bytes; data is valid during the call only.
	Output(stream wirev1.Stream, offset uint64, data []byte) error
	// Gap says that bytes are not stored.
	Gap(*wirev1.Gap) error
}

// Writers is a Sink that copies output to two writers and leaves gaps to Result.Gaps. A nil writer
// discards.
func Writers(stdout, stderr io.Writer) Sink { return &writers{stdout, stderr} }

type writers struct{ stdout, stderr io.Writer }

func (w *writers) Started(*wirev1.Started) error { return nil }
func (w *writers) Gap(*wirev1.Gap) error         { return nil }

func (w *writers) Output(stream wirev1.Stream, _ uint64, data []byte) error {
	to := w.stdout
	if stream == wirev1.Stream_STREAM_STDERR {
		to = w.stderr
	}
	if to == nil {
		return nil
	}
	_, err := to.Write(data)
	return err
}
