-- name: InsertSession :exec
INSERT INTO sessions (id, tenant_id, agent, parent_id, base_seq, lineage, lineage_upto, indexed_seq)
VALUES (@id, @tenant_id, @agent, sqlc.narg(parent_id), @base_seq, @lineage::uuid[], @lineage_upto::bigint[], @base_seq);

-- name: InsertFirstEntry :exec
INSERT INTO journal (session_id, seq, fence, kind, body) VALUES (@session_id, @seq, 0, @kind, @body);

-- name: GetSession :one
SELECT * FROM sessions WHERE id = @id AND tenant_id = @tenant_id;

-- name: ListSessions :many
SELECT * FROM sessions WHERE tenant_id = @tenant_id AND id < @before ORDER BY id DESC LIMIT @most;

-- name: LockSession :one
-- Every transaction that changes a session's row or rows under it locks the row first, so no two can wait in a circle.
SELECT * FROM sessions WHERE id = @id AND tenant_id = @tenant_id FOR UPDATE;

-- name: WakeSession :execrows
-- A running session is not touched: its owner looks. Back-off is cut short only for what cannot wait.
UPDATE sessions SET state = 2, touched_at = clock_timestamp(),
  wake_at = CASE WHEN state = 2 AND NOT @now::boolean THEN wake_at ELSE LEAST(wake_at, clock_timestamp()) END
WHERE id = @id AND state IN (1, 2, 4);

-- name: CloseSession :execrows
UPDATE sessions SET state = 5, touched_at = clock_timestamp() WHERE id = @id AND tenant_id = @tenant_id AND state = 1;

-- name: HeadSeq :one
SELECT coalesce(max(seq), 0)::bigint FROM journal WHERE session_id = @session_id;
