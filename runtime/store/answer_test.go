package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// proxy is a way to the database that can lose an answer.
type proxy struct {
	listener net.Listener
	target   string
	// lose is how many answers will be lost: the connection breaks in place of the next thing that the server says, after
	// skip more of them.
	lose, skip atomic.Int32
}

// loseAfter loses one answer after n others.
func (p *proxy) loseAfter(n int) {
	p.skip.Store(int32(n))
	p.lose.Store(1)
}

// throughProxy gives the database by a proxy.
func throughProxy(t *testing.T, db database) (*proxy, database) {
	t.Helper()
	config, err := pgx.ParseConfig(db.url)
	if err != nil {
		t.Fatal(err)
	}
	network, target := way(config)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &proxy{listener: l, target: target}
	go p.serve(t.Context(), network)
	u, err := url.Parse(db.url)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Del("host")
	query.Del("port")
	u.Host, u.RawQuery = l.Addr().String(), query.Encode()
	return p, database{url: u.String()}
}

func way(config *pgx.ConnConfig) (network, address string) {
	if filepath.IsAbs(config.Host) {
		return "unix", filepath.Join(config.Host, ".s.PGSQL."+strconv.Itoa(int(config.Port)))
	}
	return "tcp", net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
}

func (p *proxy) serve(ctx context.Context, network string) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(ctx, network, p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		closeBoth := func() {
			_ = client.Close()
			_ = server.Close()
		}
		go func() {
			defer closeBoth()
			_, _ = io.Copy(server, client)
		}()
		go func() {
			defer closeBoth()
			_, _ = io.Copy(lossy{client, p}, server)
		}()
	}
}

type lossy struct {
	io.Writer
	p *proxy
}

// Write loses what the server says when an answer is to be lost: by then the server has done what it was asked.
func (l lossy) Write(b []byte) (int, error) {
	if l.p.lose.Load() > 0 && l.p.skip.Add(-1) >= 0 {
		return l.Writer.Write(b)
	}
	if n := l.p.lose.Load(); n > 0 && l.p.lose.CompareAndSwap(n, n-1) {
		return 0, io.ErrClosedPipe
	}
	return l.Writer.Write(b)
}

// The commit is carried out and its answer lost: the store finds it by (session, seq), fence and bytes, and writes nothing
// twice.
func TestLostAnswerIsReadBack(t *testing.T) {
	for name, write := range map[string]func(*turn, int) error{
		"by the writer": func(u *turn, n int) error { return u.append(t.Context(), fmt.Sprint(n)) },
		"alone":         func(u *turn, n int) error { return u.intend(t.Context(), fmt.Sprint("c", n)) },
		"a start":       func(u *turn, n int) error { return u.start(t.Context(), fmt.Sprint("s", n)) },
	} {
		t.Run(name, func(t *testing.T) {
			const rounds = 12
			db := fresh(t)
			p, through := throughProxy(t, db)
			u := begin(t, through.open(t, store.Options{Conns: 1, Writers: 1, TTL: time.Hour}))
			for n := range rounds {
				if err := u.intend(t.Context(), fmt.Sprint("s", n)); err != nil {
					t.Fatal(err)
				}
			}
			for n := range rounds {
				p.lose.Store(1) // a hint of the round before may take it
				if err := write(u, n); err != nil {
					t.Fatalf("round %d: %v", n, err)
				}
			}
			p.lose.Store(0)
			all, err := db.open(t, store.Options{}).Load(t.Context(), tenant, u.claim.Session, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			if int64(len(all)) != u.last || len(all) != 1+2*rounds {
				t.Errorf("%d entries, want %d", len(all), u.last)
			}
		})
	}
}

// A claim is carried out and its answer lost: the executor beats on, so nobody else will take the session. The next claim does,
// under a new fence.
func TestLostClaimIsTakenBack(t *testing.T) {
	db := fresh(t)
	p, through := throughProxy(t, db)
	s := through.open(t, store.Options{Conns: 1, Writers: 1, TTL: time.Hour})
	kept := begin(t, s)
	executor, err := s.Register(t.Context(), "here", "test")
	if err != nil {
		t.Fatal(err)
	}
	got := map[uuid.UUID]bool{}
	for n := range 8 {
		id := store.NewID()
		if _, err := s.CreateSession(t.Context(), tenant, "agent", id); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Submit(t.Context(), store.Input{Tenant: tenant, Session: id, Key: "k"}); err != nil {
			t.Fatal(err)
		}
		// Answers of a claim come one a statement: each round loses a later one, the last that of the commit.
		p.loseAfter(n)
		eventually(t, "the session is claimed", func() bool {
			claims, err := s.Claim(t.Context(), executor, 5)
			p.lose.Store(0)
			for _, c := range claims {
				if got[c.Session] || c.TookOver || c.Submission == nil || c.Attempts != 0 {
					t.Errorf("claim is %+v", c)
				}
				got[c.Session] = true
			}
			return err == nil && got[id]
		})
	}
	if err := kept.append(t.Context(), "of another executor, untouched"); err != nil {
		t.Error(err)
	}
}

// The answer is lost of an append that came after a takeover, and the new owner has written at the same numbers: the old one
// hears that it is fenced, as it would have by the answer. That is no collision, which would be a bug.
func TestLostAnswerOfAFormerOwnerIsAFence(t *testing.T) {
	for name, write := range map[string]func(*turn, int) error{
		"by the writer": func(u *turn, n int) error { return u.append(t.Context(), fmt.Sprint(n)) },
		"alone":         func(u *turn, n int) error { return u.intend(t.Context(), fmt.Sprint("c", n)) },
	} {
		t.Run(name, func(t *testing.T) {
			db := fresh(t)
			p, through := throughProxy(t, db)
			old := begin(t, through.open(t, store.Options{Conns: 1, Writers: 1, TTL: time.Hour}))
			s := db.open(t, store.Options{TTL: time.Hour})
			e, err := s.Register(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
				next, err := steal(ctx, conn, s, e, old.claim.Session)
				if err != nil {
					return err
				}
				return next.append(ctx, "of the new owner")
			})
			for n := range 12 {
				p.lose.Store(1) // a hint of the round before may take it
				if err := write(old, n); !errors.Is(err, store.ErrFenced) {
					t.Fatalf("round %d: %v, want ErrFenced", n, err)
				}
			}
		})
	}
}
