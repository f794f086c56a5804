-- +goose Up
-- The span that the work on a submission continues, as W3C's traceparent; null when it came without one.
ALTER TABLE submissions ADD COLUMN traceparent text;
