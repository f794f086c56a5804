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

-- name: ShareSession :one
-- Keeps a session from being deleted or flattened while something is made of its history.
SELECT * FROM sessions WHERE id = @id AND tenant_id = @tenant_id FOR SHARE;

-- name: InsertFlatSession :exec
INSERT INTO sessions (id, tenant_id, agent, parent_id, base_seq, copied_from) VALUES (@id, @tenant_id, @agent, @parent_id, @base_seq, @copied_from::uuid[]);

-- name: CopyEntries :exec
-- What a fork reads of its ancestors becomes its own.
INSERT INTO journal (session_id, seq, fence, kind, submission_id, call_id, at, body, blob_sha)
SELECT @into_session::uuid, j.seq, j.fence, j.kind, j.submission_id, j.call_id, j.at, j.body, j.blob_sha
FROM (SELECT unnest(@sessions::uuid[]) AS id, unnest(@afters::bigint[]) AS after, unnest(@uptos::bigint[]) AS upto) r
JOIN journal j ON j.session_id = r.id AND j.seq > r.after AND j.seq <= r.upto;

-- name: ReferCopied :exec
INSERT INTO blob_refs (tenant_id, sha, session_id)
SELECT DISTINCT @tenant_id::text, j.blob_sha, j.session_id FROM journal j WHERE j.session_id = @session_id AND j.blob_sha IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: FlattenSession :exec
UPDATE sessions SET lineage = '{}', lineage_upto = '{}', copied_from = copied_from || lineage, indexed_seq = 0, index_due = true WHERE id = @id;

-- name: Forks :many
SELECT id, tenant_id FROM sessions WHERE lineage @> ARRAY[@id::uuid] ORDER BY id;
