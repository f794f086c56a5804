package store

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	channel = "flyfleet"
	// hintGap is the least time between two NOTIFYs of a replica: a transaction with NOTIFY takes a lock of the
	// whole database at its commit.
	hintGap = 10 * time.Millisecond
	// pollEvery is how long a lost hint can delay anything.
	pollEvery = time.Second
	// pingEvery and pingPatience bound how long a half-open connection goes unnoticed.
	pingEvery    = 5 * time.Second
	pingPatience = 5 * time.Second
	// maxPayload is what a NOTIFY may carry, with room.
	maxPayload = 7000
	everything = "*"
)

// Notifier says when it is worth to look into the database: soon after something was committed, by a coalesced NOTIFY,
// and every second in any case. It never says what has changed: rows do.
type Notifier struct {
	pool *pgxpool.Pool
	log  *slog.Logger

	mu    sync.Mutex
	dirty map[string]bool
	ready bool
	// due has a token when something is to be sent.
	due chan struct{}
	// watchers by the tail of their session's id; those of ready sessions under "".
	watchers map[string]map[chan struct{}]bool
}

func newNotifier(pool *pgxpool.Pool, log *slog.Logger) *Notifier {
	return &Notifier{
		pool: pool, log: log, dirty: map[string]bool{}, due: make(chan struct{}, 1), watchers: map[string]map[chan struct{}]bool{},
	}
}

// tail is the part of an id by which hints name a session: the random end of a UUIDv7. Two sessions with one tail wake
// each other's watchers for nothing.
func tail(id uuid.UUID) string { return id.String()[28:] }

// Changed says that the session has more entries or output.
func (n *Notifier) Changed(session uuid.UUID) { n.mark(session, false) }

// Ready says that the session waits for an executor, or its owner has something to look at.
func (n *Notifier) Ready(session uuid.UUID) { n.mark(session, true) }

func (n *Notifier) mark(session uuid.UUID, ready bool) {
	n.mu.Lock()
	n.dirty[tail(session)] = true
	n.ready = n.ready || ready
	n.mu.Unlock()
	select {
	case n.due <- struct{}{}:
	default:
	}
}

// WatchReady gives a channel that has a token when sessions may be ready to be claimed, at least once a second. Call stop
// when done.
func (n *Notifier) WatchReady() (look <-chan struct{}, stop func()) { return n.watch("") }

// Watch gives a channel that has a token when the session may have news, at least once a second. Call stop when done.
func (n *Notifier) Watch(session uuid.UUID) (look <-chan struct{}, stop func()) {
	return n.watch(tail(session))
}

func (n *Notifier) watch(key string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.watchers[key] == nil {
		n.watchers[key] = map[chan struct{}]bool{}
	}
	n.watchers[key][c] = true
	return c, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.watchers[key], c)
		if len(n.watchers[key]) == 0 {
			delete(n.watchers, key)
		}
	}
}

// run sends, listens and polls until the context ends.
func (n *Notifier) run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { n.send(ctx) })
	parts.Go(func() { n.listen(ctx) })
	parts.Go(func() { n.poll(ctx) })
	parts.Wait()
}

func (n *Notifier) poll(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.tell(everything)
		case <-ctx.Done():
			return
		}
	}
}

// tell passes a payload on: tails, with a leading "!" when sessions are ready.
func (n *Notifier) tell(payload string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if payload == everything {
		for _, set := range n.watchers {
			wake(set)
		}
		return
	}
	if rest, ready := strings.CutPrefix(payload, "!"); ready {
		payload = rest
		wake(n.watchers[""])
	}
	for key := range strings.SplitSeq(payload, ",") {
		if key != "" {
			wake(n.watchers[key])
		}
	}
}

func wake(set map[chan struct{}]bool) {
	for c := range set {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// take empties what is to be sent.
func (n *Notifier) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	if n.ready {
		b.WriteByte('!')
	}
	for key := range n.dirty {
		if b.Len()+len(key) > maxPayload {
			b.Reset()
			b.WriteString(everything)
			break
		}
		b.WriteString(key)
		b.WriteByte(',')
	}
	clear(n.dirty)
	n.ready = false
	return b.String()
}

// send notifies at most once a hintGap. A lost hint is not sent again: the poll is there for that.
func (n *Notifier) send(ctx context.Context) {
	for {
		select {
		case <-n.due:
		case <-ctx.Done():
			return
		}
		payload := n.take()
		n.tell(payload) // this replica's own watchers need no database
		if err := n.hint(ctx, payload); err != nil && ctx.Err() == nil {
			n.log.DebugContext(ctx, "a hint was not sent", "error", err)
		}
		if sleep(ctx, hintGap) != nil {
			return
		}
	}
}

func (n *Notifier) hint(ctx context.Context, payload string) error {
	ctx, cancel := context.WithTimeout(ctx, pingPatience)
	defer cancel()
	// A hint that a crash loses costs a second, so nobody waits for the disk.
	_, err := n.pool.Exec(ctx, "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)", channel, payload)
	return err
}

// listen keeps a connection of its own that hears what other replicas send. After each (re)connect everybody looks, for
// what was sent meanwhile is gone.
func (n *Notifier) listen(ctx context.Context) {
	for wait := 50 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, time.Second) {
		heard, err := n.hear(ctx)
		if ctx.Err() != nil {
			return
		}
		n.log.WarnContext(ctx, "listening for hints was interrupted; looking every second", "error", err)
		if heard {
			wait = 50 * time.Millisecond
		}
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// hear listens on one connection until it breaks; heard says that it worked for a while.
func (n *Notifier) hear(ctx context.Context) (heard bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, n.pool.Config().ConnConfig)
	if err != nil {
		return false, err
	}
	defer closeConn(ctx, conn)
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return false, err
	}
	n.tell(everything)
	for {
		slice, cancel := context.WithTimeout(ctx, pingEvery)
		note, err := conn.WaitForNotification(slice)
		quiet := slice.Err() != nil
		cancel()
		switch {
		case err == nil:
			n.tell(note.Payload)
		case ctx.Err() != nil:
			return true, ctx.Err()
		case !quiet:
			return true, err
		default:
			ping, cancel := context.WithTimeout(ctx, pingPatience)
			err := conn.Ping(ping)
			cancel()
			if err != nil {
				return true, err
			}
		}
	}
}

func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
