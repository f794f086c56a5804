-- +goose Up
-- An input that is the answer to what its session waits for: open cards are denied, and it has its turn.
ALTER TABLE submissions ADD COLUMN answers boolean NOT NULL DEFAULT false;
