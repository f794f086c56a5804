-- +goose Up

-- Work over which an owner has died: each claim looks for it, and there is next to none.
CREATE INDEX submissions_suspect ON submissions (session_id) WHERE attempts > 0 AND state IN (2, 4);
