package gateway

import (
	"context"
	"io"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// What one call of Next gives at most, but one entry or chunk whatever its size. A chunk is some 64 KiB.
const (
	pageBytes   = 256 << 10
	pageEntries = 100
	pageChunks  = 4
	// maxCommands is how many running commands a feed follows.
	maxCommands = 1000
)

// feed is one client's way through a session. It is a cursor, and nothing of what comes after that is kept: every call of
// Next reads what is there now.
type feed struct {
	*Gateway
	tenant  string
	session uuid.UUID
	output  bool
	// untilNow ends it when all is told.
	untilNow bool

	cursor Cursor
	// commands ran at the cursor, in order of their seq.
	commands []store.Command
	look     <-chan struct{}
	unwatch  func()
	// held is what the events of the last call take of the gateway's room.
	held int64
}

var _ Feed = (*feed)(nil)

// open is OpenFeed. It watches first and reads then: what is written in between is seen twice, never not at all.
func (g *Gateway) open(ctx context.Context, caller Caller, session string, after Cursor, output bool) (Feed, error) {
	return g.feed(ctx, caller, session, after, output)
}

func (g *Gateway) feed(ctx context.Context, caller Caller, session string, after Cursor, output bool) (*feed, error) {
	id, err := parseID("session_id", session)
	if err != nil {
		return nil, err
	}
	f := &feed{Gateway: g, tenant: caller.Tenant, session: id, output: output, cursor: after}
	f.look, f.unwatch = g.store.Notifier().Watch(id)
	if f.commands, err = g.store.CommandsAt(ctx, caller.Tenant, id, after.Seq, maxCommands); err != nil {
		f.unwatch()
		return nil, g.failed(ctx, "session", err)
	}
	if !output {
		f.cursor.Execs = nil
	}
	// Of a command that does not run there the cursor says nothing: it is a client's text.
	f.cursor.Execs = slices.DeleteFunc(slices.Clone(f.cursor.Execs), func(p Position) bool {
		return !slices.ContainsFunc(f.commands, func(c store.Command) bool { return c.Seq == p.Seq })
	})
	return f, nil
}

// Close frees what the feed holds.
func (f *feed) Close() {
	f.release()
	f.unwatch()
}

// Next is Feed's.
func (f *feed) Next(ctx context.Context) ([]*runtimev1.StreamEventsResponse, error) {
	f.release() // what was given before is written
	for {
		if err := f.take(ctx, pageBytes); err != nil {
			return nil, err
		}
		// What a hint taken here told of is committed, so the read that follows sees it: only later news need another round.
		select {
		case <-f.look:
		default:
		}
		events, end, err := f.read(ctx)
		switch {
		case len(events) > 0:
			// An error after them comes again, from where they end.
			return events, f.settle(ctx, events)
		case ctx.Err() != nil:
			f.release()
			return nil, context.Cause(ctx)
		case err != nil:
			f.release()
			return nil, f.failed(ctx, "session", err)
		case end:
			f.release()
			return nil, io.EOF
		}
		f.release()
		select {
		case <-f.look:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (f *feed) take(ctx context.Context, bytes int64) error {
	if err := f.room.Acquire(ctx, bytes); err != nil {
		return context.Cause(ctx)
	}
	f.held = bytes
	return nil
}

func (f *feed) release() {
	if f.held > 0 {
		f.room.Release(f.held)
		f.held = 0
	}
}

// settle counts events as they are. The few that are bigger than a page wait with nothing held, so that no two wait for
// each other.
func (f *feed) settle(ctx context.Context, events []*runtimev1.StreamEventsResponse) error {
	size := int64(0)
	for _, e := range events {
		size += int64(proto.Size(e))
	}
	size = min(size, f.most)
	if size <= f.held {
		f.room.Release(f.held - size)
		f.held = size
		return nil
	}
	f.release()
	return f.take(context.WithoutCancel(ctx), size)
}

// read gives what comes after the cursor now, and moves it. end says that nothing more will come.
func (f *feed) read(ctx context.Context) (events []*runtimev1.StreamEventsResponse, end bool, err error) {
	page, err := f.store.LoadPage(ctx, f.tenant, f.session, f.cursor.Seq, pageEntries, pageBytes)
	if err != nil {
		return nil, false, err
	}
	left := int64(pageBytes)
	for _, e := range page.Entries {
		if c, ended := f.endedBy(e); ended && f.output {
			// All that a command wrote comes before its end.
			told, whole, err := f.drain(ctx, c, &left)
			if events = append(events, told...); err != nil || !whole {
				return events, false, err
			}
		}
		events = append(events, f.tell(e))
	}
	if f.output {
		for _, c := range slices.Clone(f.commands) {
			if f.cursor.names(c.Seq) || len(f.cursor.Execs) < maxPositions-1 {
				told, _, err := f.drain(ctx, c, &left)
				if events = append(events, told...); err != nil {
					return events, false, err
				}
			}
		}
	}
	return events, len(events) == 0 && (f.untilNow || page.Session.State == store.SessionClosed), nil
}

// endedBy gives the command whose end an entry tells.
func (f *feed) endedBy(e journal.Entry) (c store.Command, ended bool) {
	if e.Kind != journal.KindExecExited && e.Kind != journal.KindExecLost {
		return store.Command{}, false
	}
	for _, c := range f.commands {
		if c.Call == e.Call {
			return c, true
		}
	}
	return store.Command{}, false
}

// tell makes the event of an entry, and moves the cursor past it.
func (f *feed) tell(e journal.Entry) *runtimev1.StreamEventsResponse {
	f.cursor = f.cursor.Advance(e.Seq)
	switch e.Kind {
	case journal.KindExecStarted:
		// An id that is none is the journal's fault: its output cannot be asked for.
		if exec, err := uuid.Parse(e.Body.GetExecStarted().GetExecId()); err == nil && len(f.commands) < maxCommands {
			f.commands = append(f.commands, store.Command{Seq: e.Seq, Exec: exec, Call: e.Call})
		}
	case journal.KindSessionForked:
		f.commands, f.cursor.Execs = nil, nil
	default:
		if over, ended := f.endedBy(e); ended {
			f.commands = slices.DeleteFunc(f.commands, func(c store.Command) bool { return c.Seq == over.Seq })
			f.cursor = f.cursor.Ended(over.Seq)
		}
	}
	return &runtimev1.StreamEventsResponse{
		Cursor: f.cursor.String(), Event: &runtimev1.StreamEventsResponse_Entry{Entry: shownEntry(e)},
	}
}

// drain gives what is stored of a command's output past the cursor; whole says that this was all. left is how many bytes may
// still be told.
func (f *feed) drain(ctx context.Context, c store.Command, left *int64) (events []*runtimev1.StreamEventsResponse, whole bool, err error) {
	for _, stream := range []store.Stream{store.Stdout, store.Stderr} {
		for {
			if *left <= 0 {
				return events, false, nil
			}
			chunks, err := f.store.ReadOutput(ctx, f.tenant, c.Exec, stream, f.cursor.Of(c.Seq).of(stream), pageChunks)
			if err != nil {
				return events, false, err
			}
			for _, chunk := range chunks {
				events = append(events, f.wrote(c, chunk))
				*left -= int64(len(chunk.Data)) + 64
			}
			if len(chunks) < pageChunks {
				break
			}
		}
	}
	return events, true, nil
}

// wrote makes the event of a chunk, and moves the cursor past it.
func (f *feed) wrote(c store.Command, chunk store.Chunk) *runtimev1.StreamEventsResponse {
	p := f.cursor.Of(c.Seq)
	if told := p.of(chunk.Stream) - chunk.Off; told > 0 && chunk.RawLen == int64(len(chunk.Data)) {
		// The cursor is inside, which only a client of its own mind says; where something is masked the whole comes again.
		chunk.Off, chunk.RawLen, chunk.Data = chunk.Off+told, chunk.RawLen-told, chunk.Data[told:]
	}
	out := &runtimev1.Output{
		ExecId: c.Exec.String(), CallId: c.Call, Stream: runtimev1.OutputStream_OUTPUT_STREAM_STDOUT,
		Offset: chunk.Off, RawLength: chunk.RawLen, Data: chunk.Data,
	}
	if end := chunk.Off + chunk.RawLen; chunk.Stream == store.Stderr {
		out.Stream, p.Stderr = runtimev1.OutputStream_OUTPUT_STREAM_STDERR, end
	} else {
		p.Stdout = end
	}
	f.cursor = f.cursor.Wrote(p)
	return &runtimev1.StreamEventsResponse{Cursor: f.cursor.String(), Event: &runtimev1.StreamEventsResponse_Output{Output: out}}
}

// shownEntry is an entry as a client gets it.
func shownEntry(e journal.Entry) *runtimev1.Entry {
	return &runtimev1.Entry{
		Seq: e.Seq, AtMs: e.At.UnixMilli(), SubmissionId: idText(e.Submission), Body: e.Body, Shown: shownBlocks(e.Body.GetModelCompleted()),
	}
}

func shownBlocks(answer *journalv1.ModelCompleted) []*runtimev1.ShownBlock {
	var all []*runtimev1.ShownBlock
	for _, b := range answer.GetBlocks() {
		all = append(all, shownBlock(answer.GetProvider(), b))
	}
	return all
}
