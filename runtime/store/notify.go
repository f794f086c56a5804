package store

import (
	"context"
	"encoding/hex"
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
	// whole database at its commit, and wakes every replica.
	hintGap = 20 * time.Millisecond
	// newsGap is the same for one that somebody waits for: a session that is ready, a decision, a cancel. There are few.
	newsGap = 2 * time.Millisecond
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

	mu sync.Mutex
	// dirty are the sessions that a hint is to name; true means news for the owner.
	dirty map[tail]bool
	// due has a token when something is to be sent, urgent when it has news.
	due, urgent chan struct{}
	// ready are watchers of sessions to be claimed; news and changes are those of one session.
	ready         watchers
	news, changes map[tail]watchers
}

type watchers map[chan struct{}]bool

func newNotifier(pool *pgxpool.Pool, log *slog.Logger) *Notifier {
	return &Notifier{
		pool: pool, log: log, dirty: map[tail]bool{}, due: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
		ready: watchers{}, news: map[tail]watchers{}, changes: map[tail]watchers{},
	}
}

// tail is the part of an id by which hints name a session: the random end of a UUIDv7. Two sessions with one tail wake
// each other's watchers for nothing.
type tail [4]byte

func tailOf(id uuid.UUID) tail { return tail(id[12:]) }

// Changed says that the session has more entries or output. Its owner, who wrote them, is not told.
func (n *Notifier) Changed(session uuid.UUID) { n.mark(session, false) }

// Ready says that the session waits for an executor, or its owner has something to look at.
func (n *Notifier) Ready(session uuid.UUID) { n.mark(session, true) }

func (n *Notifier) mark(session uuid.UUID, news bool) {
	key := tailOf(session)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dirty[key] = n.dirty[key] || news
	poke(n.due)
	if news {
		poke(n.urgent)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// WatchReady gives a channel that has a token when sessions may be ready to be claimed, at least once a second. Call stop
// when done.
func (n *Notifier) WatchReady() (look <-chan struct{}, stop func()) {
	c := watch()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready[c] = true
	return c, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.ready, c)
	}
}

// Watch gives a channel that has a token when the session may have anything new, at least once a second. Call stop when done.
func (n *Notifier) Watch(session uuid.UUID) (look <-chan struct{}, stop func()) {
	return n.watchIn(n.changes, tailOf(session))
}

// WatchNews is Watch for the session's owner: what it wrote itself is none. See Store.Look.
func (n *Notifier) WatchNews(session uuid.UUID) (look <-chan struct{}, stop func()) {
	return n.watchIn(n.news, tailOf(session))
}

func (n *Notifier) watchIn(all map[tail]watchers, key tail) (<-chan struct{}, func()) {
	c := watch()
	n.mu.Lock()
	defer n.mu.Unlock()
	if all[key] == nil {
		all[key] = watchers{}
	}
	all[key][c] = true
	return c, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(all[key], c)
		if len(all[key]) == 0 {
			delete(all, key)
		}
	}
}

// watch makes a watcher's channel, with its first token.
func watch() chan struct{} {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	return c
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

// tell passes a payload on. See take.
func (n *Notifier) tell(payload string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if payload == everything {
		n.ready.wake()
		for _, one := range []map[tail]watchers{n.news, n.changes} {
			for _, w := range one {
				w.wake()
			}
		}
		return
	}
	payload, news := strings.CutPrefix(payload, "!")
	if news {
		n.ready.wake()
	}
	for name := range strings.SplitSeq(payload, ",") {
		if name == "|" {
			news = false
		}
		var key tail
		if len(name) != hex.EncodedLen(len(key)) {
			continue
		}
		if _, err := hex.Decode(key[:], []byte(name)); err != nil {
			continue
		}
		n.changes[key].wake()
		if news {
			n.news[key].wake()
		}
	}
}

func (w watchers) wake() {
	for c := range w {
		poke(c)
	}
}

// take empties what is to be sent: "!" and tails with news, if there are any, "|", tails without. Each is followed by a comma.
func (n *Notifier) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer clear(n.dirty)
	select { // it is taken along
	case <-n.urgent:
	default:
	}
	if len(n.dirty) > maxPayload/9 {
		return everything
	}
	var news, changes []byte
	for key, has := range n.dirty {
		if has {
			news = append(hex.AppendEncode(news, key[:]), ',')
		} else {
			changes = append(hex.AppendEncode(changes, key[:]), ',')
		}
	}
	if news == nil {
		return string(changes)
	}
	return "!" + string(news) + "|," + string(changes)
}

// send notifies at most once a newsGap, and a hintGap when nothing is news. The first hint after a while is sent at once. A lost
// one is not sent again: the poll is there for that.
func (n *Notifier) send(ctx context.Context) {
	var last time.Time
	for {
		select {
		case <-n.due:
		case <-ctx.Done():
			return
		}
		if !n.pause(ctx, last) {
			return
		}
		if payload := n.take(); payload != "" {
			n.tell(payload) // this replica's own watchers need no database
			last = time.Now()
			if err := n.hint(ctx, payload); err != nil && ctx.Err() == nil {
				n.log.DebugContext(ctx, "a hint was not sent", "error", err)
			}
		}
	}
}

// pause waits until a hint may follow the last one; false when the context ended.
func (n *Notifier) pause(ctx context.Context, last time.Time) bool {
	timer := time.NewTimer(time.Until(last.Add(hintGap)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-n.urgent:
		return sleep(ctx, time.Until(last.Add(newsGap))) == nil
	case <-ctx.Done():
		return false
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
