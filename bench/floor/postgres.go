package floor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Rows are bare inserts into a table with a key and a body: what a program pays that makes a row durable and does nothing
// else. Its ratio to a figure can be compared between computers, whose disks differ far more than their programs.
type Rows struct {
	conns []*pgx.Conn
	next  int64
}

// NewRows connects and makes the table.
func NewRows(ctx context.Context, url string, conns int) (*Rows, error) {
	r := &Rows{}
	for range conns {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("floor: %w", err), r.Close(ctx))
		}
		r.conns = append(r.conns, conn)
	}
	_, err := r.conns[0].Exec(ctx, "CREATE TABLE IF NOT EXISTS floor_rows (writer int, seq bigint, body bytea NOT NULL, PRIMARY KEY (writer, seq))")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("floor: %w", err), r.Close(ctx))
	}
	return r, nil
}

// Close closes the connections.
func (r *Rows) Close(ctx context.Context) error {
	var errs []error
	for _, conn := range r.conns {
		errs = append(errs, conn.Close(ctx))
	}
	return errors.Join(errs...)
}

// Insert inserts n rows of that size over each connection, one a transaction, and returns rows per second.
func (r *Rows) Insert(ctx context.Context, n, size int) (float64, error) {
	body := make([]byte, size)
	failures := make([]error, len(r.conns))
	begin := time.Now()
	var wait sync.WaitGroup
	for i, conn := range r.conns {
		wait.Go(func() {
			for k := range n {
				_, err := conn.Exec(ctx, "INSERT INTO floor_rows (writer, seq, body) VALUES ($1, $2, $3)", i, r.next+int64(k), body)
				if err != nil {
					failures[i] = err
					return
				}
			}
		})
	}
	wait.Wait()
	r.next += int64(n)
	took := time.Since(begin)
	if err := errors.Join(failures...); err != nil {
		return 0, fmt.Errorf("floor: %w", err)
	}
	return float64(n*len(r.conns)) / took.Seconds(), nil
}

// Select reads all rows that Insert has written over the first connection, bodies and keys, and returns how many there were.
func (r *Rows) Select(ctx context.Context) (int, time.Duration, error) {
	begin := time.Now()
	rows, err := r.conns[0].Query(ctx, "SELECT seq, body FROM floor_rows WHERE writer = 0 ORDER BY seq")
	if err != nil {
		return 0, 0, fmt.Errorf("floor: %w", err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var seq int64
		var body []byte
		if err := rows.Scan(&seq, &body); err != nil {
			return 0, 0, fmt.Errorf("floor: %w", err)
		}
		n++
	}
	return n, time.Since(begin), rows.Err()
}

// Notify is the median time from a NOTIFY on one connection to its receipt on another.
func Notify(ctx context.Context, url string, times int) (time.Duration, error) {
	from, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("floor: %w", err)
	}
	defer func() { _ = from.Close(ctx) }()
	to, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("floor: %w", err)
	}
	defer func() { _ = to.Close(ctx) }()
	if _, err := to.Exec(ctx, "LISTEN floor"); err != nil {
		return 0, fmt.Errorf("floor: %w", err)
	}
	var took []time.Duration
	for range times {
		begin := time.Now()
		if _, err := from.Exec(ctx, "NOTIFY floor"); err != nil {
			return 0, fmt.Errorf("floor: %w", err)
		}
		if _, err := to.WaitForNotification(ctx); err != nil {
			return 0, fmt.Errorf("floor: %w", err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
