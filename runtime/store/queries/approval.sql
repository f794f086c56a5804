-- name: GetApproval :one
SELECT sqlc.embed(approvals), (expires_at <= clock_timestamp())::boolean AS due FROM approvals WHERE id = @id AND tenant_id = @tenant_id;

-- name: PendingApprovals :many
SELECT * FROM approvals WHERE tenant_id = @tenant_id AND state = 1 AND id > @after ORDER BY id LIMIT @most;

-- name: DecideApproval :execrows
UPDATE approvals SET state = @state, decided_by = @decided_by, decision_key = @decision_key, reason = @reason,
  edited_args = @edited_args, allowed_sha = @allowed_sha, decided_at = clock_timestamp()
WHERE id = @id AND state = 1;

-- name: ExpireApprovals :many
-- The session's row is locked first, as everywhere.
WITH due AS (
  SELECT a.id, a.session_id FROM approvals a JOIN sessions s ON s.id = a.session_id
  WHERE a.state = 1 AND a.expires_at <= (SELECT clock_timestamp())
  ORDER BY a.expires_at LIMIT @most FOR UPDATE OF s SKIP LOCKED
), gone AS (
  UPDATE approvals a SET state = 4, decided_at = clock_timestamp() FROM due WHERE a.id = due.id AND a.state = 1
  RETURNING a.session_id
)
UPDATE sessions s SET state = CASE WHEN s.state IN (2, 4) THEN 2 ELSE s.state END,
  wake_at = CASE WHEN s.state IN (2, 4) THEN LEAST(s.wake_at, clock_timestamp()) ELSE s.wake_at END
WHERE s.id IN (SELECT session_id FROM gone) RETURNING s.id;

-- name: Undelivered :many
SELECT * FROM approvals WHERE session_id = @session_id AND state <> 1 AND delivered_seq IS NULL ORDER BY decided_at, id;

-- name: PendingOfSession :many
SELECT * FROM approvals WHERE session_id = @session_id AND tenant_id = @tenant_id AND state = 1 ORDER BY id LIMIT @most;
