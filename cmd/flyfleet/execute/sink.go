package execute

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/ending"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
)

// mostJSON bounds what --json holds in memory, a stream.
const mostJSON = 16 << 20

// sink passes output through as it comes, or keeps it for one JSON document.
type sink struct {
	client.Sink
	out, err *bounded
}

func newSink(c *console.Console) *sink {
	if !c.JSON {
		return &sink{Sink: client.Writers(c.Out, c.Err)}
	}
	s := &sink{out: &bounded{}, err: &bounded{}}
	s.Sink = client.Writers(s.out, s.err)
	return s
}

type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > mostJSON {
		return 0, fmt.Errorf("more than %d MiB of output do not fit into one JSON document; leave --json out", mostJSON>>20)
	}
	return b.Buffer.Write(p)
}

var _ io.Writer = (*bounded)(nil)

// report is the JSON form. Output that is not UTF-8 comes in the *_base64 fields.
type report struct {
	App          string `json:"app"`
	Machine      string `json:"machine"`
	ExecID       string `json:"exec_id"`
	ExitCode     int    `json:"exit_code"`
	Signal       int32  `json:"signal,omitempty"`
	Cause        string `json:"cause,omitempty"`
	Message      string `json:"message,omitempty"`
	Stdout       string `json:"stdout"`
	StdoutBase64 string `json:"stdout_base64,omitempty"`
	Stderr       string `json:"stderr"`
	StderrBase64 string `json:"stderr_base64,omitempty"`
}

func (s *sink) report(c *console.Console, app, machine string, r client.Result, code int) error {
	doc := report{
		App: app, Machine: machine, ExecID: r.ID, ExitCode: code,
		Signal: r.Exit.GetSignal(), Message: r.Exit.GetMessage(), Cause: ending.Cause(r.Exit),
	}
	doc.Stdout, doc.StdoutBase64 = text(s.out.Bytes())
	doc.Stderr, doc.StderrBase64 = text(s.err.Bytes())
	return c.Result(doc, nil)
}

func text(b []byte) (plain, encoded string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return "", base64.StdEncoding.EncodeToString(b)
}
