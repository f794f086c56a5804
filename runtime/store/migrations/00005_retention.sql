-- +goose Up
-- What one replica at a time does, and when one did it last.
CREATE TABLE chores (
  name    text PRIMARY KEY,
  done_at timestamptz NOT NULL
);
-- Sessions are too old whoever's they are.
DROP INDEX sessions_touched;
CREATE INDEX sessions_touched ON sessions (touched_at) WHERE state IN (1, 5);
