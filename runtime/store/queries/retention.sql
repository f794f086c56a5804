-- name: TakeChore :execrows
-- Whoever changes the row has the chore until it is due again.
INSERT INTO chores (name, done_at) VALUES (@name, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at
WHERE chores.done_at <= clock_timestamp() - make_interval(secs => @every_s::float8);

-- name: OldSessions :many
SELECT id FROM sessions WHERE state IN (1, 5)
  AND touched_at < clock_timestamp() - make_interval(secs => @age_s::float8) ORDER BY touched_at LIMIT @most;

-- name: LockOldSession :one
SELECT id FROM sessions WHERE id = @id AND state IN (1, 5)
  AND touched_at < clock_timestamp() - make_interval(secs => @age_s::float8) FOR UPDATE;

-- name: DeleteOutputOf :exec
DELETE FROM exec_output WHERE exec_id IN (SELECT id FROM execs WHERE session_id = @session_id);

-- name: DeleteExecs :exec
DELETE FROM execs WHERE session_id = @session_id;

-- name: DeleteApprovals :exec
DELETE FROM approvals WHERE session_id = @session_id;

-- name: DeleteEffects :exec
DELETE FROM effects WHERE session_id = @session_id;

-- name: DeleteSubmissions :exec
DELETE FROM submissions WHERE session_id = @session_id;

-- name: DeleteWords :exec
DELETE FROM journal_fts WHERE session_id = @session_id;

-- name: DeleteBlobRefs :exec
DELETE FROM blob_refs WHERE session_id = @session_id;

-- name: DeleteEntries :exec
DELETE FROM journal WHERE session_id = @session_id;

-- name: FreeSlots :exec
WITH freed AS (
  UPDATE machine_slots SET session_id = NULL, fence = NULL, claimed_at = NULL WHERE session_id = @session_id RETURNING machine_id
)
UPDATE machines SET idle_at = clock_timestamp() WHERE id IN (SELECT f.machine_id FROM freed f);

-- name: DeleteSession :exec
DELETE FROM sessions WHERE id = @session_id;

-- name: DropOldOutput :execrows
-- Of commands that ended long ago; what the model saw of them is in the journal.
DELETE FROM exec_output WHERE exec_id IN (
  SELECT x.id FROM execs x WHERE x.state <> 1 AND x.ended_at < clock_timestamp() - make_interval(secs => @age_s::float8)
    AND EXISTS (SELECT 1 FROM exec_output o WHERE o.exec_id = x.id)
  ORDER BY x.ended_at LIMIT @most);

-- name: CollectBlobs :execrows
-- A blob without a reference is left for a day: an input that will name it may be on its way.
DELETE FROM blobs b WHERE (b.tenant_id, b.sha) IN (
  SELECT o.tenant_id, o.sha FROM blobs o WHERE o.touched_at < clock_timestamp() - make_interval(secs => @age_s::float8)
    AND NOT EXISTS (SELECT 1 FROM blob_refs r WHERE r.tenant_id = o.tenant_id AND r.sha = o.sha)
  ORDER BY o.touched_at LIMIT @most)
  AND b.touched_at < clock_timestamp() - make_interval(secs => @age_s::float8)
  AND NOT EXISTS (SELECT 1 FROM blob_refs r WHERE r.tenant_id = b.tenant_id AND r.sha = b.sha);

-- name: MakeMonths :exec
-- One caller at a time, here and below: a second one would fail on the table that the first one makes or drops.
SELECT journal_month(now()), journal_month(now() + interval '1 month') WHERE pg_try_advisory_xact_lock(7205759403792793601);

-- name: DropEmptyMonths :one
SELECT coalesce((SELECT journal_drop_empty(now() - interval '1 month') WHERE pg_try_advisory_xact_lock(7205759403792793601)), 0)::integer;

-- name: EntryForErasure :one
SELECT kind, body, submission_id, coalesce(call_id, '')::text AS call_id, coalesce(blob_sha, '')::bytea AS blob_sha FROM journal WHERE session_id = @session_id AND seq = @seq FOR UPDATE;

-- name: EraseEntry :execrows
-- The one permitted change of the journal. Copies that forks made are found by their bytes.
UPDATE journal SET kind = @marker_kind, body = @marker, blob_sha = NULL
WHERE seq = @seq AND kind = @kind AND body = @body AND coalesce(blob_sha, '') = @blob_sha::bytea
  AND (session_id = @session_id OR session_id IN (SELECT s.id FROM sessions s WHERE s.copied_from @> ARRAY[@session_id::uuid]));

-- name: EraseWords :exec
DELETE FROM journal_fts WHERE seq = @seq
  AND (session_id = @session_id OR session_id IN (SELECT s.id FROM sessions s WHERE s.copied_from @> ARRAY[@session_id::uuid]));

-- name: ErasePayload :exec
-- Its digest stays: a repeat of the Submit still is one.
UPDATE submissions SET payload = '' WHERE id = @submission_id AND session_id = @session_id;

-- name: EraseOutput :exec
DELETE FROM exec_output WHERE exec_id IN (SELECT x.id FROM execs x WHERE x.session_id = @session_id AND x.call_id = @call_id);

-- name: EraseCards :exec
-- What cards show of the calls of an answer.
UPDATE approvals a SET summary = '', edited_args = NULL WHERE a.session_id = @session_id AND a.requested_seq > @seq
  AND a.requested_seq < coalesce((SELECT min(j.seq) FROM journal j WHERE j.session_id = @session_id AND j.seq > @seq AND j.kind = @kind), 9223372036854775807);

-- name: EraseDecision :exec
UPDATE approvals SET reason = '', edited_args = NULL WHERE session_id = @session_id AND call_id = @call_id;

-- name: EraseBlobRefs :exec
-- References of sessions in which no other entry has the blob.
DELETE FROM blob_refs r WHERE r.tenant_id = @tenant_id AND r.sha = @sha
  AND (r.session_id = @session_id OR r.session_id IN (SELECT s.id FROM sessions s WHERE s.copied_from @> ARRAY[@session_id::uuid]))
  AND NOT EXISTS (SELECT 1 FROM journal j WHERE j.session_id = r.session_id AND j.blob_sha = r.sha);

-- name: EraseBlob :exec
DELETE FROM blobs b WHERE b.tenant_id = @tenant_id AND b.sha = @sha
  AND NOT EXISTS (SELECT 1 FROM blob_refs r WHERE r.tenant_id = b.tenant_id AND r.sha = b.sha);
