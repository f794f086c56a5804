package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// ExecState is how far a command is.
type ExecState int16

// The states of an exec. They are columns of the database: numbers never change.
const (
	ExecStarted ExecState = 1
	ExecExited  ExecState = 2
	ExecLost    ExecState = 3
)

func (s ExecState) String() string { return name(s, "started", "exited", "lost") }

// ExecRow is a command as the database has it.
type ExecRow struct {
	Exec
	Session uuid.UUID
	State   ExecState
	// Fence of the owner that started it.
	Fence int64
	// Code of an exited one; Ends of one that has ended.
	Code int32
	Ends Ends
}

func execOf(row statement.Exec) ExecRow {
	return ExecRow{
		Exec:    Exec{ID: row.ID, Call: row.CallID, Machine: row.MachineID, Epoch: row.Epoch},
		Session: row.SessionID, State: ExecState(row.State), Fence: row.Fence, Code: orZero(row.Code),
		Ends: Ends{Stdout: orZero(row.StdoutEnd), Stderr: orZero(row.StderrEnd)},
	}
}

// Exec gives a tenant's command, or ErrNotFound.
func (s *Store) Exec(ctx context.Context, tenant string, id uuid.UUID) (ExecRow, error) {
	row, err := found(ask(ctx, s.query.GetExec, statement.GetExecParams{ID: id, TenantID: tenant}))
	if err != nil {
		return ExecRow{}, fmt.Errorf("exec %s: %w", id, err)
	}
	return execOf(row), nil
}

// RunningExecs lists the session's commands whose end is not known.
func (s *Store) RunningExecs(ctx context.Context, session uuid.UUID) ([]ExecRow, error) {
	rows, err := ask(ctx, s.query.RunningExecs, session)
	if err != nil {
		return nil, fmt.Errorf("store: execs of session %s: %w", session, err)
	}
	return each(rows, execOf), nil
}
