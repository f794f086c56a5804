// Package journaltext reads journals that are written as text: for tables of histories in tests, and for
// the corpus of journals that every build must fold.
//
// A line is a directive or the text form of a journalv1.Body:
//
//	session a          entries from here on belong to session a; its number goes on from the one before
//	fence 2            … are written under fence 2
//	submission 1       … belong to submission 1; "submission -" is none
//	# …                is a comment
//	tool_result { call_id: "c1" outcome: TOOL_OUTCOME_OK content: "hi" }
//
// In a body, $name stands for the id of the session of that name. A body goes on over lines that are
// indented further.
package journaltext

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// Session is the id of the session of that name.
func Session(name string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("session "+name))
}

// Submission is the id of the submission of that name.
func Submission(name string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("submission "+name))
}

// Parse reads a journal. It begins in session "a", under fence 1, with no submission and after Seq 0.
func Parse(text string) ([]journal.Entry, error) {
	r := reader{session: Session("a"), fence: 1}
	return r.read(text)
}

// ParseAfter reads entries that go on after others: in the last one's session and submission, and under
// its fence.
func ParseAfter(before []journal.Entry, text string) ([]journal.Entry, error) {
	if len(before) == 0 {
		return Parse(text)
	}
	last := before[len(before)-1]
	r := reader{session: last.Session, fence: last.Fence, submission: last.Submission, seq: last.Seq}
	more, err := r.read(text)
	return append(before[:len(before):len(before)], more...), err
}

type reader struct {
	session, submission uuid.UUID
	fence, seq          int64
	entries             []journal.Entry
}

var sessionName = regexp.MustCompile(`\$[a-z0-9]+`)

func (r *reader) read(text string) ([]journal.Entry, error) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		number, line := i+1, lines[i]
		for i+1 < len(lines) && indent(line) >= 0 && indent(lines[i+1]) > indent(line) {
			i++
			line += " " + strings.TrimSpace(lines[i])
		}
		if err := r.line(strings.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	return r.entries, nil
}

// indent of a line without text is that of none.
func indent(line string) int {
	trimmed := strings.TrimLeft(line, " \t")
	if trimmed == "" {
		return -1
	}
	return len(line) - len(trimmed)
}

func (r *reader) line(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case line == "" || strings.HasPrefix(line, "#"):
	case word == "session":
		r.session = Session(rest)
	case word == "fence":
		fence, err := strconv.ParseInt(rest, 10, 64)
		r.fence = fence
		return err
	case word == "submission" && rest == "-":
		r.submission = uuid.Nil
	case word == "submission":
		r.submission = Submission(rest)
	default:
		return r.body(line)
	}
	return nil
}

func (r *reader) body(line string) error {
	body := new(journalv1.Body)
	line = sessionName.ReplaceAllStringFunc(line, func(name string) string { return Session(name[1:]).String() })
	if err := prototext.Unmarshal([]byte(line), body); err != nil {
		return err
	}
	r.seq++
	r.entries = append(r.entries, journal.Entry{
		Session: r.session, Seq: r.seq, Fence: r.fence, Kind: journal.KindOf(body), Submission: r.submission,
		Call: callOf(body), At: time.UnixMilli(1_700_000_000_000 + r.seq).UTC(), Body: body,
	})
	return nil
}

// callOf finds the call of a redaction in its reason, as "call <id>": only its column has it.
func callOf(body *journalv1.Body) string {
	if call, is := strings.CutPrefix(body.GetRedaction().GetReason(), "call "); is {
		return call
	}
	return journal.CallOf(body)
}
