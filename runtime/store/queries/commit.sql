-- name: Append :many
-- Steps of many sessions in one statement. A step goes in when its owner still is the owner, under FOR SHARE: a weaker
-- lock does not conflict with the takeover's UPDATE, and then a stale owner writes after the new one has read. Steps
-- of rows that somebody holds are skipped and tried again alone, so that nobody waits for a neighbour's lock. afters is
-- NULL where the owner itself has committed the entry before: the look-up would cost a quarter of the statement.
WITH own AS (
  SELECT st.step FROM (
    SELECT unnest(@steps::integer[]) AS step, unnest(@sessions::uuid[]) AS id, unnest(@owners::uuid[]) AS owner,
      unnest(@fences::bigint[]) AS fence, unnest(@afters::bigint[]) AS after
  ) st JOIN sessions s ON s.id = st.id AND s.owner = st.owner AND s.fence = st.fence
  WHERE st.after IS NULL OR st.after = s.base_seq OR EXISTS (SELECT 1 FROM journal j WHERE j.session_id = st.id AND j.seq = st.after)
  FOR SHARE OF s SKIP LOCKED
), e AS NOT MATERIALIZED (
  SELECT unnest(@step::integer[]) AS step, unnest(@entry_sessions::uuid[]) AS session_id, unnest(@seqs::bigint[]) AS seq,
    unnest(@entry_fences::bigint[]) AS fence, unnest(@kinds::smallint[]) AS kind, unnest(@submissions::uuid[]) AS submission_id,
    unnest(@calls::text[]) AS call_id, unnest(@bodies::bytea[]) AS body
)
INSERT INTO journal (session_id, seq, fence, kind, submission_id, call_id, body)
SELECT e.session_id, e.seq, e.fence, e.kind, e.submission_id, e.call_id, e.body FROM e
-- IS TRUE keeps this a look-up by hash: as a join, whose size no plan for all arrays can know, it would be a loop in a loop.
WHERE (e.step IN (SELECT own.step FROM own)) IS TRUE
RETURNING session_id, seq;

-- name: AppendOne :execrows
-- Append for one step of one entry whose owner has committed the one before, which is what a session alone has.
INSERT INTO journal (session_id, seq, fence, kind, submission_id, call_id, body)
SELECT s.id, @seq::bigint, @fence::bigint, @kind::smallint, sqlc.narg(submission_id)::uuid, sqlc.narg(call_id)::text, @body::bytea
FROM sessions s WHERE s.id = @session_id::uuid AND s.owner = @owner::uuid AND s.fence = @fence::bigint
FOR SHARE OF s SKIP LOCKED;

-- name: Hold :exec
WITH own AS (SELECT 1 FROM sessions WHERE id = @id AND owner = @owner::uuid AND fence = @fence FOR SHARE)
SELECT must((SELECT count(*) FROM own) = 1, 'FF001', 'fenced');

-- name: NoGap :exec
SELECT must(@after::bigint = (SELECT base_seq FROM sessions WHERE id = @id)
  OR EXISTS (SELECT 1 FROM journal WHERE session_id = @id AND seq = @after::bigint), 'FF005', 'gap');

-- name: AppendOwned :exec
-- After Hold in the same transaction.
INSERT INTO journal (session_id, seq, fence, kind, submission_id, call_id, body, blob_sha)
SELECT @session_id::uuid, e.seq, @fence::bigint, e.kind, nullif(e.submission_id, '00000000-0000-0000-0000-000000000000'), nullif(e.call_id, ''), e.body, nullif(e.blob_sha, '')
FROM (
  SELECT unnest(@seqs::bigint[]) AS seq, unnest(@kinds::smallint[]) AS kind, unnest(@submissions::uuid[]) AS submission_id,
    unnest(@calls::text[]) AS call_id, unnest(@bodies::bytea[]) AS body, unnest(@blobs::bytea[]) AS blob_sha
) e;

-- name: StoreBlobs :exec
INSERT INTO blobs (tenant_id, sha, size, media_type, data)
SELECT DISTINCT ON (b.tenant_id, b.sha) b.tenant_id, b.sha, length(b.data), b.media_type, b.data FROM (
  SELECT unnest(@tenants::text[]) AS tenant_id, unnest(@shas::bytea[]) AS sha, unnest(@media_types::text[]) AS media_type, unnest(@datas::bytea[]) AS data
) b ORDER BY b.tenant_id, b.sha
ON CONFLICT (tenant_id, sha) DO UPDATE SET touched_at = clock_timestamp();

-- name: ReferBlobs :exec
INSERT INTO blob_refs (tenant_id, sha, session_id)
SELECT unnest(@tenants::text[]), unnest(@shas::bytea[]), unnest(@sessions::uuid[])
ON CONFLICT DO NOTHING;

-- name: EntriesAt :many
SELECT seq, fence, kind, body, coalesce(blob_sha, '')::bytea AS blob_sha FROM journal
WHERE session_id = @session_id AND seq > @after::bigint AND seq <= @upto::bigint ORDER BY seq;

-- name: Owned :one
SELECT EXISTS (SELECT 1 FROM sessions WHERE id = @id AND owner = @owner::uuid AND fence = @fence)::boolean AS owned;

-- name: IntendEffect :exec
INSERT INTO effects (session_id, call_id, submission_id, class, tool, args_sha)
VALUES (@session_id, @call_id, sqlc.narg(submission_id), @class, @tool, @args_sha);

-- name: RequestApproval :exec
WITH parked AS (
  UPDATE effects e SET state = 2, approval_id = @id::uuid WHERE e.session_id = @session_id AND e.call_id = @call_id AND e.state = 1 RETURNING 1
), card AS (
  INSERT INTO approvals (id, tenant_id, session_id, submission_id, call_id, args_sha, summary, requested_seq, expires_at)
  VALUES (@id::uuid, @tenant_id, @session_id, sqlc.narg(submission_id), @call_id, @args_sha, @summary, @requested_seq,
    clock_timestamp() + make_interval(secs => @expires_s::float8))
)
SELECT must((SELECT count(*) FROM parked) = 1, 'FF004', 'the effect is not in state intended');

-- name: DeliverDecision :exec
WITH told AS (
  UPDATE approvals SET delivered_seq = @seq::bigint WHERE id = @id AND session_id = @session_id AND state <> 1 AND delivered_seq IS NULL RETURNING 1
)
SELECT must((SELECT count(*) FROM told) = 1, 'FF004', 'the decision is not there, or was delivered');

-- name: StartEffect :exec
-- The one compare-and-set. A call with a card starts only by an approval that is approved, allows exactly these
-- arguments and was not used.
WITH used AS (
  UPDATE approvals a SET consumed_seq = @seq::bigint
  FROM effects e
  WHERE e.session_id = @session_id AND e.call_id = @call_id AND e.approval_id = a.id
    AND a.state = 2 AND a.allowed_sha = @args_sha::bytea AND a.consumed_seq IS NULL
  RETURNING a.id
), started AS (
  UPDATE effects e SET state = 3, started_fence = @fence::bigint, started_seq = @seq::bigint
  WHERE e.session_id = @session_id AND e.call_id = @call_id AND e.state IN (1, 2)
    AND CASE WHEN e.approval_id IS NULL THEN e.args_sha = @args_sha::bytea ELSE e.approval_id IN (SELECT id FROM used) END
  RETURNING 1
)
SELECT must((SELECT count(*) FROM started) = 1, 'FF002', 'not startable');

-- name: InsertExec :exec
INSERT INTO execs (id, session_id, call_id, machine_id, epoch, fence) VALUES (@id, @session_id, @call_id, @machine_id, @epoch, @fence);

-- name: ClaimSlot :exec
-- A session that has a slot on the machine keeps it, with the new fence. The machine is the tenant's own, and not on its
-- way to rest: the lock makes one that goes there at this moment wait for us, or us for it. A retired one takes nobody new.
WITH machine AS (
  SELECT k.id, k.state FROM machines k JOIN sessions s ON s.id = @session_id::uuid AND s.tenant_id = k.tenant_id
  WHERE k.id = @machine_id AND k.state <> 3 FOR SHARE OF k
), free AS (
  SELECT m.machine_id, m.slot FROM machine_slots m JOIN machine k ON k.id = m.machine_id
  WHERE m.session_id = @session_id::uuid
    OR m.session_id IS NULL AND k.state = 1 AND NOT EXISTS (SELECT 1 FROM machine_slots h WHERE h.session_id = @session_id::uuid)
  ORDER BY m.session_id NULLS LAST, m.slot LIMIT 1 FOR UPDATE OF m SKIP LOCKED
), took AS (
  UPDATE machine_slots m SET session_id = @session_id::uuid, fence = @fence::bigint,
    claimed_at = CASE WHEN m.session_id IS NULL THEN clock_timestamp() ELSE m.claimed_at END
  FROM free WHERE m.machine_id = free.machine_id AND m.slot = free.slot RETURNING 1
)
SELECT must((SELECT count(*) FROM took) = 1, 'FF003', 'no free slot');

-- name: EndExec :exec
WITH over AS (
  UPDATE execs SET state = @state, code = sqlc.narg(code), stdout_end = @stdout_end::bigint, stderr_end = @stderr_end::bigint, ended_at = clock_timestamp()
  WHERE id = @id AND session_id = @session_id AND state = 1 RETURNING 1
)
SELECT must((SELECT count(*) FROM over) = 1, 'FF004', 'the exec does not run');

-- name: SettleEffect :exec
-- A card that is still open closes with its call.
WITH done AS (
  UPDATE effects e SET state = 4, settled_seq = @seq::bigint, outcome = @outcome::smallint
  WHERE e.session_id = @session_id AND e.call_id = @call_id AND e.state <> 4 RETURNING e.approval_id
), closed AS (
  UPDATE approvals a SET state = 5, decided_at = clock_timestamp(), delivered_seq = @seq::bigint
  WHERE a.id IN (SELECT d.approval_id FROM done d) AND a.state = 1
)
SELECT must((SELECT count(*) FROM done) = 1, 'FF004', 'the call has its result, or is none');

-- name: AcceptInput :exec
-- What runs has its input in the journal; what joins becomes part of what runs.
WITH taken AS (
  UPDATE submissions SET input_seq = @seq::bigint, state = CASE WHEN state = 1 THEN 3 ELSE state END
  WHERE id = @id AND session_id = @session_id AND input_seq IS NULL AND (state = 2 OR (state = 1 AND joins IS NOT NULL)) RETURNING 1
)
SELECT must((SELECT count(*) FROM taken) = 1, 'FF004', 'the input is not to be taken');

-- name: Terminalize :exec
WITH t AS (
  UPDATE submissions SET state = 4, terminal = @terminal::bytea
  WHERE id = @id AND session_id = @session_id AND (state = 2 OR (state = 4 AND terminal = @terminal::bytea)) RETURNING 1
)
SELECT must((SELECT count(*) FROM t) = 1, 'FF004', 'the submission does not run');

-- name: SettleSubmission :exec
WITH done AS (
  UPDATE submissions u SET state = 5, settled_seq = @seq::bigint, outcome = @outcome::smallint, settled_at = clock_timestamp()
  WHERE u.session_id = @session_id AND (u.id = @id::uuid AND u.state IN (2, 4) OR u.joins = @id::uuid AND u.state = 3) RETURNING u.id
), forgotten AS (
  DELETE FROM submission_credentials c WHERE c.submission_id IN (SELECT d.id FROM done d)
), closed AS (
  UPDATE approvals a SET delivered_seq = @seq::bigint, decided_at = coalesce(a.decided_at, clock_timestamp()),
    state = CASE WHEN a.state = 1 THEN 5 ELSE a.state END
  WHERE a.session_id = @session_id AND a.delivered_seq IS NULL
)
SELECT must(EXISTS (SELECT 1 FROM done d WHERE d.id = @id::uuid), 'FF004', 'the submission does not run');
