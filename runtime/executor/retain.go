package executor

import (
	"context"
	"time"
)

const (
	// retainEvery is how often one of the replicas deletes what is too old. It has as long for it.
	retainEvery = time.Minute
	// What one pass deletes at most: so many times the output of so many commands, and so many sessions, one transaction each.
	retainBatches  = 20
	mostOutputs    = 100
	mostOldSession = 50
)

// retain deletes what is older than it is to be kept. What is left over waits for the next pass.
func (e *Executor) retain(ctx context.Context) error {
	mine, err := e.options.Store.Turn(ctx, "retain", retainEvery)
	if err != nil || !mine {
		return err
	}
	chunks, err := batches(e.options.KeepOutput, func(age time.Duration) (int, error) {
		return e.options.Store.DropOutput(ctx, age, mostOutputs)
	})
	if err != nil {
		return err
	}
	sessions, err := batches(e.options.KeepSessions, func(age time.Duration) (int, error) {
		return e.options.Store.Retain(ctx, age, mostOldSession)
	})
	if chunks > 0 || sessions > 0 {
		e.options.Log.InfoContext(ctx, "deleted what was old", "sessions", sessions, "output_chunks", chunks)
	}
	return err
}

// batches goes on until there is nothing left, for a while.
func batches(age time.Duration, remove func(time.Duration) (int, error)) (all int, err error) {
	if age <= 0 {
		return 0, nil
	}
	for range retainBatches {
		n, err := remove(age)
		all += n
		if err != nil || n == 0 {
			return all, err
		}
	}
	return all, nil
}
