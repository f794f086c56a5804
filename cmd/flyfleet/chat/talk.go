package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/follow"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1/runtimev1connect"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// talk is one person's, or program's, end of a session. Its fields are its own goroutine's.
type talk struct {
	client  runtimev1connect.RuntimeServiceClient
	session string
	console *console.Console
	screen  *screen
	as      string
	limit   time.Duration
	// free takes lines whenever they come, as a person types them.
	free bool

	cursor string
	// mine are submissions of this talk that have not settled.
	mine map[string]bool
	// running is the last one that was taken up, for /cancel.
	running string
	// card is what is to be decided.
	card *runtimev1.Approval
	// over is the outcome of the last of mine.
	over journalv1.SettledOutcome
	// ended says that no more lines come.
	ended bool
}

var errQuit = errors.New("quit")

// maxLine is the longest line of input.
const maxLine = 1 << 20

func (t *talk) run(ctx context.Context, after string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.cursor = after
	lines, failed := read(ctx, t.console.In)
	events, done := make(chan *runtimev1.StreamEventsResponse), make(chan error, 1)
	go func() {
		done <- follow.Events(ctx, t.client, follow.Session{ID: t.session, Cursor: after, Output: true}, func(e *runtimev1.StreamEventsResponse) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	following := true
	defer func() {
		cancel(nil)
		if following {
			<-done //nolint:errcheck // it ended because this did
		}
	}()
	if err := t.pending(ctx); err != nil {
		return err
	}
	for !t.finished() {
		from := lines
		if !t.free && len(t.mine) > 0 && t.card == nil {
			from = nil
		}
		select {
		case e := <-events:
			if err := t.take(ctx, e); err != nil {
				return err
			}
		case line, more := <-from:
			if !more {
				lines, t.ended = nil, true
				if err := <-failed; err != nil {
					return fmt.Errorf("read stdin: %w", err)
				}
				continue
			}
			if err := t.line(ctx, line); errors.Is(err, errQuit) {
				return nil
			} else if err != nil {
				return err
			}
		case err := <-done:
			following = false
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return t.verdict()
}

// finished says that no line and no answer will come any more.
func (t *talk) finished() bool { return t.ended && (len(t.mine) == 0 || t.card != nil) }

func (t *talk) verdict() error {
	if t.card != nil {
		return &console.Exit{Code: ExitCard, Err: fmt.Errorf("card %s waits for a decision", t.card.GetApprovalId())}
	}
	switch t.over {
	case journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED, journalv1.SettledOutcome_SETTLED_OUTCOME_CANCELLED:
		return &console.Exit{Code: ExitUnsettled}
	}
	return nil
}

// read gives the lines of stdin. It ends with stdin or the next line after ctx; a read cannot be interrupted.
func read(ctx context.Context, in io.Reader) (<-chan string, <-chan error) {
	lines, failed := make(chan string), make(chan error, 1)
	go func() {
		scanner := bufio.NewScanner(in)
		scanner.Buffer(nil, maxLine)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
		failed <- scanner.Err()
		close(lines)
	}()
	return lines, failed
}

// pending finds the card that is open already.
func (t *talk) pending(ctx context.Context) error {
	got, err := follow.Patiently(ctx, func(ctx context.Context) (*connect.Response[runtimev1.GetSessionResponse], error) {
		return t.client.GetSession(ctx, connect.NewRequest(&runtimev1.GetSessionRequest{SessionId: t.session}))
	})
	if err != nil {
		return err
	}
	before := t.card
	t.card = nil
	if open := got.Msg.GetOpenApprovals(); len(open) > 0 {
		t.card = open[0]
	}
	if t.card != nil && t.card.GetApprovalId() != before.GetApprovalId() {
		return t.screen.card(t.card)
	}
	return nil
}

func (t *talk) take(ctx context.Context, e *runtimev1.StreamEventsResponse) error {
	if err := t.screen.show(e); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	if e.GetCursor() != "" {
		t.cursor = e.GetCursor()
	}
	switch b := e.GetEntry().GetBody().GetBody().(type) {
	case *journalv1.Body_ApprovalRequested, *journalv1.Body_ApprovalDecided:
		// Of an old one, which was decided long ago, the rows know it.
		return t.pending(ctx)
	case *journalv1.Body_InputAccepted:
		t.running = e.GetEntry().GetSubmissionId()
	case *journalv1.Body_SubmissionSettled:
		id := e.GetEntry().GetSubmissionId()
		if t.running == id {
			t.running = ""
		}
		if t.mine[id] {
			delete(t.mine, id)
			t.over = b.SubmissionSettled.GetOutcome()
		}
		if t.card != nil {
			return t.pending(ctx)
		}
	}
	return nil
}

// line is what a person says: a command, a decision, or an input.
func (t *talk) line(ctx context.Context, line string) error {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch {
	case word == "":
		return nil
	case word == "/quit":
		return errQuit
	case word == "/cancel":
		return t.cancel(ctx)
	case t.card == nil:
		return t.submit(ctx, line)
	}
	switch strings.ToLower(word) {
	case "y", "yes", "/approve":
		return t.decide(ctx, runtimev1.ApprovalVerdict_APPROVAL_VERDICT_APPROVE, rest)
	case "n", "no", "/deny":
		return t.decide(ctx, runtimev1.ApprovalVerdict_APPROVAL_VERDICT_DENY, rest)
	}
	t.console.Note("flyfleet: a card is open: y, or n and why; /cancel ends the work")
	return nil
}

func (t *talk) submit(ctx context.Context, line string) error {
	req := &runtimev1.SubmitRequest{
		SessionId: t.session, IdempotencyKey: uuid.NewString(), TimeLimitMs: t.limit.Milliseconds(),
		Parts: []*runtimev1.InputPart{{Part: &runtimev1.InputPart_Text{Text: line}}},
	}
	made, err := follow.Patiently(ctx, func(ctx context.Context) (*connect.Response[runtimev1.SubmitResponse], error) {
		return t.client.Submit(ctx, connect.NewRequest(req))
	})
	if err != nil {
		return err
	}
	id := made.Msg.GetSubmission().GetSubmissionId()
	t.mine[id], t.screen.own[id] = true, t.free
	return nil
}

func (t *talk) decide(ctx context.Context, verdict runtimev1.ApprovalVerdict, reason string) error {
	req := &runtimev1.DecideRequest{
		ApprovalId: t.card.GetApprovalId(), IdempotencyKey: uuid.NewString(), Verdict: verdict, DecidedBy: t.as, Reason: reason,
	}
	_, err := follow.Patiently(ctx, func(ctx context.Context) (*connect.Response[runtimev1.DecideResponse], error) {
		return t.client.Decide(ctx, connect.NewRequest(req))
	})
	if connect.CodeOf(err) == connect.CodeFailedPrecondition {
		t.console.Note("flyfleet: %v", err) // somebody was faster, or it was too late
	} else if err != nil {
		return err
	} else if id := t.card.GetSubmissionId(); id != "" {
		t.mine[id] = true // what the decision leads to is waited for
	}
	return t.pending(ctx)
}

func (t *talk) cancel(ctx context.Context) error {
	if t.running == "" {
		t.console.Note("flyfleet: nothing runs")
		return nil
	}
	id := t.running
	_, err := follow.Patiently(ctx, func(ctx context.Context) (*connect.Response[runtimev1.CancelResponse], error) {
		return t.client.Cancel(ctx, connect.NewRequest(&runtimev1.CancelRequest{SubmissionId: id}))
	})
	return err
}
