package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// Options of a Store. Zero values are the defaults.
type Options struct {
	// URL or key=value string of the database. Not through a pooler in transaction mode: LISTEN needs a connection.
	URL string
	// Conns is how many connections serve everything but appends, output and listening, which has one more; 4.
	Conns int
	// Writers is how many connections append entries, 1 to 4; 2. A thousand sessions share them.
	Writers int
	// OutputLanes is how many connections store output of commands; 1.
	OutputLanes int
	// TTL is how long after its last beat a replica counts as dead; 15 s. It trusts itself for four fifths of that.
	TTL time.Duration
	// TenantCap is how many sessions of one tenant may run at once; 0 is no limit.
	TenantCap int
	// Now is this process's clock, for Executor.Trusted only; time.Now.
	Now func() time.Time
	// Log gets what nobody waits for; slog.Default().
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Conns = orDefault(o.Conns, 4)
	o.Writers = min(orDefault(o.Writers, 2), 4)
	o.OutputLanes = orDefault(o.OutputLanes, 1)
	o.TTL = orDefault(o.TTL, 15*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Store is one replica's way to the database. Its methods may be called from many goroutines; none holds a
// connection across anything but the database's own work.
type Store struct {
	options Options
	pool    *pgxpool.Pool
	query   *statement.Queries
	// writing is apart from pool, so that appends never wait behind readers.
	writing  *pgxpool.Pool
	life     *life
	writer   *writer
	output   *output
	notifier *Notifier
	stop     context.CancelCauseFunc
	running  sync.WaitGroup
}

// Open connects to a database that Migrate has prepared. Close the store when done.
func Open(ctx context.Context, options Options) (*Store, error) {
	options = options.withDefaults()
	made := new(life)
	pool, err := connect(ctx, made, options.URL, options.Conns)
	if err != nil {
		return nil, err
	}
	// A plan for any arrays: planning for each takes longer than the insert.
	writing, err := connect(ctx, made, options.URL, options.Writers+options.OutputLanes, "plan_cache_mode", "force_generic_plan")
	if err != nil {
		pool.Close()
		return nil, err
	}
	s := &Store{options: options, pool: pool, query: statement.New(pool), writing: writing, life: made}
	life, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	s.stop = stop
	s.writer = newWriter(writing, made, options.Writers, &s.running)
	s.output = newOutput(writing, options.OutputLanes)
	s.notifier = newNotifier(pool, options.Log)
	for _, lane := range s.output.lanes {
		s.running.Go(func() { s.output.run(life, lane) })
	}
	s.running.Go(func() { s.notifier.run(life) })
	return s, nil
}

// Close waits for what is being written and closes every connection. Steps that wait get ErrClosing.
func (s *Store) Close() {
	s.stop(ErrClosing)
	s.writer.close(ErrClosing)
	s.running.Wait()
	s.writing.Close()
	s.pool.Close()
}

// Notifier tells when to look again.
func (s *Store) Notifier() *Notifier { return s.notifier }

// Ping asks the database whether it answers.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }

// connect opens a pool whose connections are counted; settings are names and values for its connections.
func connect(ctx context.Context, made *life, url string, conns int, settings ...string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("store: database URL: %w", err)
	}
	config.MaxConns = int32(conns)
	config.MaxConnLifetime = time.Hour
	config.PingTimeout = pingPatience
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		made.Add(1)
		return binaryUUIDs(ctx, conn)
	}
	config.ConnConfig.DialFunc = promptDial(config.ConnConfig.DialFunc)
	parameters(config.ConnConfig)
	for i := 0; i+1 < len(settings); i += 2 {
		config.ConnConfig.RuntimeParams[settings[i]] = settings[i+1]
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("store: the database does not answer: %w", err)
	}
	return pool, nil
}

// parameters bound what a stuck process can hold up: a lock, a statement, an open transaction.
func parameters(config *pgx.ConnConfig) {
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 5 * time.Second
	}
	for name, value := range map[string]string{
		"application_name":                    "flyfleet-runtime",
		"timezone":                            "UTC",
		"synchronous_commit":                  "on",
		"lock_timeout":                        "5s",
		"statement_timeout":                   "30s",
		"idle_in_transaction_session_timeout": "10s",
	} {
		if _, given := config.RuntimeParams[name]; !given {
			config.RuntimeParams[name] = value
		}
	}
}

// patient runs work until the database has answered, whatever the answer, or the context ends. Work may run again after an
// answer was lost, so it must come to the same.
func patient(ctx context.Context, work func() error) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := work()
		if err == nil || !passing(err) {
			return err
		}
		if cause := sleep(ctx, wait); cause != nil {
			return errors.Join(cause, err)
		}
	}
}

// transaction runs work in one transaction, patiently.
func (s *Store) transaction(ctx context.Context, work func(*statement.Queries) error) error {
	return patient(ctx, func() error { return s.once(ctx, work) })
}

// once runs work in one transaction, again only when it gave way to another one.
func (s *Store) once(ctx context.Context, work func(*statement.Queries) error) error {
	for try := 0; ; try++ {
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return work(statement.New(tx)) })
		if gaveWay := hasCode(err, "40001") || hasCode(err, "40P01"); !gaveWay || try == 3 {
			return promise(err)
		}
	}
}

// sleep waits, and gives the context's cause when that ended first.
func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ask asks one statement patiently, tell carries one out.
func ask[Arg, Answer any](ctx context.Context, do func(context.Context, Arg) (Answer, error), arg Arg) (answer Answer, err error) {
	err = patient(ctx, func() error {
		answer, err = do(ctx, arg)
		return err
	})
	return answer, err
}

func tell[Arg any](ctx context.Context, do func(context.Context, Arg) error, arg Arg) error {
	return patient(ctx, func() error { return do(ctx, arg) })
}

// found turns the absence of a row into ErrNotFound.
func found[T any](value T, err error) (T, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return value, ErrNotFound
	}
	return value, err
}
