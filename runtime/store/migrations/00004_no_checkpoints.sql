-- +goose Up
-- A fold from the first entry is faster than a checkpoint of it.
DROP TABLE fold_checkpoints;
