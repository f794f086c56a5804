-- name: IndexDue :many
-- In no order: running sessions are always due, and more of them than most must not keep others waiting.
SELECT id, tenant_id, state, fence, indexed_seq FROM sessions WHERE index_due ORDER BY random() LIMIT @most;

-- name: TryIndexing :one
SELECT pg_try_advisory_xact_lock(7205, hashtext(@session_id::text))::boolean;

-- name: EntriesToIndex :many
SELECT j.seq, j.kind, coalesce(b.data, j.body)::bytea AS body FROM journal j
LEFT JOIN blobs b ON b.tenant_id = @tenant_id AND b.sha = j.blob_sha
WHERE j.session_id = @session_id AND j.seq > @after::bigint ORDER BY j.seq LIMIT @most;

-- name: AddWords :exec
INSERT INTO journal_fts (tenant_id, session_id, seq, kind, words, tsv)
SELECT @tenant_id::text, @session_id::uuid, w.seq, w.kind, w.words, to_tsvector('simple', w.words)
FROM (SELECT unnest(@seqs::bigint[]) AS seq, unnest(@kinds::smallint[]) AS kind, unnest(@words::text[]) AS words) w
WHERE EXISTS (SELECT 1 FROM journal j WHERE j.session_id = @session_id::uuid AND j.seq = w.seq AND j.kind = w.kind)
ON CONFLICT DO NOTHING;

-- name: Indexed :exec
-- The session stays due while it runs, and when it ran since it was looked at.
UPDATE sessions SET indexed_seq = GREATEST(indexed_seq, @seq::bigint),
  index_due = NOT @reached_head::boolean OR state = 3 OR fence <> @fence::bigint
WHERE id = @id;

-- name: Search :many
-- Ranks only the newest matches: ranking reads every match.
WITH q AS (SELECT websearch_to_tsquery('simple', @query::text) AS words),
candidates AS (
  SELECT f.session_id, f.seq, f.kind, f.words, f.tsv FROM journal_fts f, q
  WHERE f.tenant_id = @tenant_id AND f.tsv @@ q.words ORDER BY f.session_id DESC, f.seq DESC LIMIT 500
), best AS (
  SELECT c.session_id, c.seq, c.kind, c.words, ts_rank(c.tsv, q.words) AS score FROM candidates c, q
  ORDER BY score DESC, c.session_id DESC, c.seq DESC LIMIT @most
)
SELECT best.session_id, best.seq, best.kind, best.score::real AS score,
  ts_headline('simple', left(best.words, 20000), q.words, 'StartSel="", StopSel="", MaxFragments=1, MaxWords=30, MinWords=10')::text AS excerpt
FROM best, q ORDER BY best.score DESC, best.session_id DESC, best.seq DESC;
