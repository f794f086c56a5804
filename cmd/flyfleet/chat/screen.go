package chat

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// screen shows events. What a model or a command wrote cannot steer the terminal.
type screen struct {
	out  io.Writer
	json bool
	// own are submissions whose text the person has just typed.
	own map[string]bool
	// told is what was shown of the answer that is coming.
	told strings.Builder
	// open says that the line is not ended.
	open bool
	err  error
	// half are the first bytes of a character, by command and stream.
	half map[string][]byte
}

func newScreen(out io.Writer, json bool) *screen {
	return &screen{out: out, json: json, own: map[string]bool{}, half: map[string][]byte{}}
}

// show shows an event, and gives the failure of the output, if it has failed.
func (s *screen) show(e *runtimev1.StreamEventsResponse) error {
	if s.json {
		s.document(e)
		return s.err
	}
	if o := e.GetOutput(); o != nil {
		s.output(o)
	} else if entry := e.GetEntry(); entry != nil {
		s.entry(entry)
	}
	return s.err
}

// document writes an event as one line of JSON. Heartbeats are for connections.
func (s *screen) document(e *runtimev1.StreamEventsResponse) {
	if e.GetHeartbeat() != nil {
		return
	}
	line, err := protojson.Marshal(e)
	if err == nil {
		_, err = fmt.Fprintf(s.out, "%s\n", line)
	}
	s.err = err
}

func (s *screen) entry(e *runtimev1.Entry) {
	switch b := e.GetBody().GetBody().(type) {
	case *journalv1.Body_InputAccepted:
		if !s.own[e.GetSubmissionId()] {
			for _, p := range b.InputAccepted.GetParts() {
				s.line("> %s%s", p.GetText(), p.GetAttachment().GetName())
			}
		}
	case *journalv1.Body_ModelRequested:
		s.told.Reset()
	case *journalv1.Body_ModelDelta:
		s.told.WriteString(b.ModelDelta.GetText())
		s.write(b.ModelDelta.GetText())
	case *journalv1.Body_ModelCompleted:
		s.answer(e.GetShown())
	case *journalv1.Body_ModelAborted:
		s.line("[answer aborted: %s %s]", b.ModelAborted.GetReason(), b.ModelAborted.GetMessage())
	case *journalv1.Body_ApprovalDecided:
		s.line("[%s by %s] %s", verdicts[b.ApprovalDecided.GetDecision()], b.ApprovalDecided.GetBy(), b.ApprovalDecided.GetReason())
	case *journalv1.Body_ExecExited:
		if b.ExecExited.GetCode() != 0 || b.ExecExited.GetSignal() != 0 {
			s.line("[exit code %d, signal %d]", b.ExecExited.GetCode(), b.ExecExited.GetSignal())
		}
	case *journalv1.Body_ExecLost:
		s.line("[the command was lost: %s]", b.ExecLost.GetReason())
	case *journalv1.Body_ToolResult:
		if o := b.ToolResult.GetOutcome(); o != journalv1.ToolOutcome_TOOL_OUTCOME_OK {
			s.line("[%s] %s", outcomes[o], short(b.ToolResult.GetContent()))
		}
	case *journalv1.Body_SubmissionSettled:
		s.fresh()
		if b.SubmissionSettled.GetOutcome() != journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED {
			s.line("[%s] %s", ends[b.SubmissionSettled.GetOutcome()], b.SubmissionSettled.GetError())
		}
	}
}

var (
	verdicts = map[journalv1.Decision]string{
		journalv1.Decision_DECISION_APPROVED: "approved", journalv1.Decision_DECISION_DENIED: "denied", journalv1.Decision_DECISION_EXPIRED: "expired",
		journalv1.Decision_DECISION_EDITED: "approved with other arguments", journalv1.Decision_DECISION_CANCELLED: "cancelled",
	}
	outcomes = map[journalv1.ToolOutcome]string{
		journalv1.ToolOutcome_TOOL_OUTCOME_ERROR: "error", journalv1.ToolOutcome_TOOL_OUTCOME_DENIED: "denied",
		journalv1.ToolOutcome_TOOL_OUTCOME_UNKNOWN: "may have happened", journalv1.ToolOutcome_TOOL_OUTCOME_CANCELLED: "cancelled",
	}
	ends = map[journalv1.SettledOutcome]string{
		journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED: "failed", journalv1.SettledOutcome_SETTLED_OUTCOME_CANCELLED: "cancelled",
	}
)

// answer shows what was not shown while it came.
func (s *screen) answer(blocks []*runtimev1.ShownBlock) {
	var text strings.Builder
	for _, b := range blocks {
		if b.GetKind() == journalv1.BlockKind_BLOCK_KIND_TEXT {
			text.WriteString(b.GetText())
		}
	}
	rest, goesOn := strings.CutPrefix(text.String(), s.told.String())
	if !goesOn {
		s.fresh()
		rest = text.String()
	}
	s.told.Reset()
	s.write(rest)
	s.fresh()
	for _, b := range blocks {
		if b.GetKind() == journalv1.BlockKind_BLOCK_KIND_TOOL_CALL {
			s.line("[%s %s]", b.GetTool(), short([]byte(b.GetArgs())))
		}
	}
}

// output shows what a command wrote. A character that was cut between two pieces is shown whole.
func (s *screen) output(o *runtimev1.Output) {
	if len(o.GetData()) == 0 && o.GetRawLength() > 0 {
		s.line("[%d bytes of output are missing]", o.GetRawLength())
		return
	}
	key := o.GetExecId() + o.GetStream().String()
	data := append(s.half[key], o.GetData()...)
	delete(s.half, key)
	if cut := unfinished(data); cut > 0 {
		s.half[key] = bytes.Clone(data[len(data)-cut:])
		data = data[:len(data)-cut]
	}
	s.write(string(data))
}

// unfinished is how many bytes at the end may be the beginning of a character.
func unfinished(data []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(data); n++ {
		if b := data[len(data)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(data[len(data)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// card shows what is to be decided.
func (s *screen) card(a *runtimev1.Approval) error {
	if !s.json {
		s.line("[card %s] %s", a.GetApprovalId(), a.GetSummary())
		s.line("Allow it? y, or n and why.")
	}
	return s.err
}

func (s *screen) line(format string, args ...any) {
	s.fresh()
	s.write(strings.TrimRight(fmt.Sprintf(format, args...), " \n") + "\n")
}

// fresh begins a line.
func (s *screen) fresh() {
	if s.open {
		s.write("\n")
	}
}

func (s *screen) write(text string) {
	if text == "" || s.err != nil {
		return
	}
	s.open = !strings.HasSuffix(text, "\n")
	_, s.err = io.WriteString(s.out, plain(text))
}

// plain leaves nothing that a terminal would obey but the ends of lines and tabs.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return utf8.RuneError
		}
		return r
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

const shortBytes = 300

// short is the beginning, on one line.
func short(text []byte) string {
	cut := len(text) > shortBytes
	text = bytes.ToValidUTF8(text[:min(len(text), shortBytes)], nil)
	line := strings.Join(strings.Fields(string(text)), " ")
	if cut {
		line += " …"
	}
	return line
}
