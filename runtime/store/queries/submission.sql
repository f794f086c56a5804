-- name: SubmissionByKey :one
SELECT * FROM submissions WHERE session_id = @session_id AND idem_key = @idem_key;

-- name: GetSubmission :one
SELECT sqlc.embed(submissions), coalesce(extract(epoch FROM deadline_at - clock_timestamp()) * 1000, 0)::bigint AS remaining_ms
FROM submissions WHERE id = @id AND tenant_id = @tenant_id;

-- name: ListSubmissions :many
SELECT sqlc.embed(submissions), coalesce(extract(epoch FROM deadline_at - clock_timestamp()) * 1000, 0)::bigint AS remaining_ms
FROM submissions WHERE session_id = @session_id AND tenant_id = @tenant_id AND ordinal > @after ORDER BY ordinal LIMIT @most;

-- name: OpenSubmission :one
-- What a session works on, or would work on next.
SELECT id FROM submissions WHERE session_id = @session_id AND state <> 5 ORDER BY (state IN (2, 4)) DESC, ordinal LIMIT 1;

-- name: JoinableSubmission :one
SELECT id FROM submissions WHERE session_id = @session_id AND state = 2 AND cancel_at IS NULL;

-- name: InsertSubmission :one
INSERT INTO submissions (id, tenant_id, session_id, idem_key, payload_sha, payload, ordinal, joins, time_limit_ms, traceparent, answers)
VALUES (@id, @tenant_id, @session_id, @idem_key, @payload_sha, @payload,
  1 + (SELECT coalesce(max(s.ordinal), 0) FROM submissions s WHERE s.session_id = @session_id),
  sqlc.narg(joins), sqlc.narg(time_limit_ms), sqlc.narg(traceparent), @answers)
RETURNING *;

-- name: InsertCredentials :exec
INSERT INTO submission_credentials (submission_id, key_id, sealed, expires_at)
VALUES (@submission_id, @key_id, @sealed, clock_timestamp() + make_interval(secs => sqlc.narg(expires_s)::float8));

-- name: CancelOpen :exec
-- All that came before: what runs is stopped, what waits is settled as cancelled when its turn comes.
UPDATE submissions SET cancel_at = clock_timestamp()
WHERE session_id = @session_id AND state <> 5 AND cancel_at IS NULL AND ordinal < @before;

-- name: CancelSubmission :one
UPDATE submissions SET cancel_at = coalesce(cancel_at, clock_timestamp())
WHERE id = @id AND session_id = @session_id AND state <> 5 RETURNING state;

-- name: SubmissionSession :one
SELECT session_id FROM submissions WHERE id = @id AND tenant_id = @tenant_id;

-- name: CountAttempts :exec
-- In the transaction of the takeover: a process that dies by SIGKILL runs no handler that could count.
UPDATE submissions SET attempts = attempts + 1 WHERE session_id = ANY(@sessions::uuid[]) AND state IN (2, 4);

-- name: ShiftDeadlines :exec
-- Time in which a session was parked does not count.
UPDATE submissions u SET deadline_at = u.deadline_at + make_interval(secs => p.secs)
FROM (SELECT unnest(@sessions::uuid[]) AS id, unnest(@secs::float8[]) AS secs) p
WHERE u.session_id = p.id AND u.state IN (2, 4) AND u.deadline_at IS NOT NULL;

-- name: BeginSubmissions :exec
-- The oldest queued one of each session that has none running. A time limit starts here, not in the queue.
UPDATE submissions SET state = 2, deadline_at = clock_timestamp() + make_interval(secs => time_limit_ms / 1000.0)
WHERE id IN (
  SELECT DISTINCT ON (q.session_id) q.id FROM submissions q
  WHERE q.session_id = ANY(@sessions::uuid[]) AND q.state = 1
    AND NOT EXISTS (SELECT 1 FROM submissions r WHERE r.session_id = q.session_id AND r.state IN (2, 4))
  ORDER BY q.session_id, q.ordinal);

-- name: RunningSubmissions :many
SELECT sqlc.embed(submissions), coalesce(extract(epoch FROM deadline_at - clock_timestamp()) * 1000, 0)::bigint AS remaining_ms
FROM submissions WHERE session_id = ANY(@sessions::uuid[]) AND state IN (2, 4);

-- name: Insisting :many
-- Those that do not only wait: they join what runs, or answer its cards.
SELECT sqlc.embed(submissions), 0::bigint AS remaining_ms FROM submissions
WHERE submissions.session_id = @session_id AND submissions.state = 1 AND submissions.cancel_at IS NULL
  AND (submissions.answers OR submissions.joins = (SELECT r.id FROM submissions r WHERE r.session_id = @session_id AND r.state = 2))
ORDER BY submissions.ordinal;

-- name: SubmissionCredentials :one
SELECT key_id, sealed, (expires_at IS NOT NULL AND expires_at <= clock_timestamp())::boolean AS expired
FROM submission_credentials WHERE submission_id = @submission_id;

-- name: OpenSubmissions :many
SELECT sqlc.embed(submissions), coalesce(extract(epoch FROM deadline_at - clock_timestamp()) * 1000, 0)::bigint AS remaining_ms
FROM submissions WHERE session_id = @session_id AND tenant_id = @tenant_id AND state <> 5 ORDER BY ordinal LIMIT @most;
