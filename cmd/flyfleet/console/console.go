// Package console is how the commands speak: text for people, JSON for programs, one exit code.
package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Console is where a command writes. Results go to Out, everything else to Err.
type Console struct {
	In       io.Reader
	Out, Err io.Writer
	// JSON asks for one JSON document on Out in place of text.
	JSON bool
}

// Result writes v as JSON, or what text writes.
func (c *Console) Result(v any, text func(w io.Writer)) error {
	var b bytes.Buffer
	if c.JSON {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(v); err != nil {
			return err
		}
	} else {
		text(&b)
	}
	_, err := c.Out.Write(b.Bytes())
	return err
}

// Note writes one line to Err.
func (c *Console) Note(format string, args ...any) { fmt.Fprintf(c.Err, format+"\n", args...) }

// Table writes rows in columns under a head. Empty cells show as "-".
func Table(w io.Writer, head []string, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, strings.ToUpper(strings.Join(head, "\t")))
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, cell := range r {
			if cells[i] = oneLine(cell); cells[i] == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	_ = t.Flush() // the writer is a buffer, or has its own way to fail
}

// oneLine keeps a foreign text from breaking the table or the terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// Exit is an error that ends the program with a code of its own. Without Err nothing is printed: the
// command has said everything already.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }
