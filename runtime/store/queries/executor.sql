-- name: Beat :exec
INSERT INTO executors (id, address, version) VALUES (@id, @address, @version)
ON CONFLICT (id) DO UPDATE SET beat_at = clock_timestamp();

-- name: ListExecutors :many
SELECT id, address, version, started_at, beat_at, (beat_at < clock_timestamp() - make_interval(secs => @ttl_s::float8))::boolean AS dead
FROM executors ORDER BY started_at;

-- name: ForgetExecutors :execrows
DELETE FROM executors e WHERE e.beat_at < clock_timestamp() - interval '1 day'
  AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.owner = e.id);

-- name: Lives :one
SELECT EXISTS (SELECT 1 FROM executors e WHERE e.id = @id AND e.beat_at >= clock_timestamp() - make_interval(secs => @ttl_s::float8))::boolean AS lives,
  EXISTS (SELECT 1 FROM submissions r WHERE r.attempts > 0 AND r.state IN (2, 4))::boolean AS suspects;

-- name: OneClaimAtATime :exec
-- Counting a tenant's running sessions and adding to them must be one act among all replicas.
SELECT pg_advisory_xact_lock(7205759403792793600);

-- name: ClaimReady :many
-- Suspects are ClaimSuspects'.
WITH pick AS (
  SELECT s.id, s.parked_at FROM sessions s WHERE s.state = 2 AND s.wake_at <= (SELECT clock_timestamp())
    AND NOT EXISTS (SELECT 1 FROM submissions r WHERE r.session_id = s.id AND r.attempts > 1 AND r.state IN (2, 4))
  ORDER BY s.wake_at LIMIT @most FOR UPDATE OF s SKIP LOCKED
)
UPDATE sessions s SET state = 3, owner = @owner::uuid, fence = fence + 1, parked_at = NULL, index_due = true, touched_at = clock_timestamp()
FROM pick WHERE s.id = pick.id
RETURNING s.id, s.tenant_id, s.agent, s.fence, s.base_seq,
  coalesce(extract(epoch FROM clock_timestamp() - pick.parked_at), 0)::float8 AS parked_s;

-- name: ClaimReadyCapped :many
-- As ClaimReady; a tenant has no more than cap running. Called under OneClaimAtATime.
WITH busy AS (
  SELECT tenant_id, count(*) AS n FROM sessions WHERE state = 3 GROUP BY tenant_id
), due AS (
  SELECT s.id, s.tenant_id, s.wake_at, coalesce(b.n, 0) AS n FROM sessions s LEFT JOIN busy b ON b.tenant_id = s.tenant_id
  WHERE s.state = 2 AND s.wake_at <= (SELECT clock_timestamp()) AND coalesce(b.n, 0) < @cap::bigint
    AND NOT EXISTS (SELECT 1 FROM submissions r WHERE r.session_id = s.id AND r.attempts > 1 AND r.state IN (2, 4))
  ORDER BY s.wake_at LIMIT 1000
), fair AS (
  SELECT due.id, due.wake_at, due.n + row_number() OVER (PARTITION BY due.tenant_id ORDER BY due.wake_at) AS place FROM due
), pick AS (
  SELECT s.id, s.parked_at FROM sessions s JOIN fair f ON f.id = s.id
  WHERE f.place <= @cap::bigint AND s.state = 2 ORDER BY f.wake_at LIMIT @most FOR UPDATE OF s SKIP LOCKED
)
UPDATE sessions s SET state = 3, owner = @owner::uuid, fence = fence + 1, parked_at = NULL, index_due = true, touched_at = clock_timestamp()
FROM pick WHERE s.id = pick.id
RETURNING s.id, s.tenant_id, s.agent, s.fence, s.base_seq,
  coalesce(extract(epoch FROM clock_timestamp() - pick.parked_at), 0)::float8 AS parked_s;

-- name: ClaimDead :many
-- Sessions of owners that have not beaten for ttl_s by the database's clock, while the judge has for three fifths of it: where
-- both have not, or the judge did not live yet, the database may have been away. The update holds only for the fence that was
-- judged. Over the submission of a suspect this would be the second owner to die, or a later one.
WITH dead AS (
  SELECT e.id FROM executors e, executors me WHERE me.id = @owner::uuid AND e.beat_at < clock_timestamp() - make_interval(secs => @ttl_s::float8)
    AND greatest(e.beat_at, me.started_at) < me.beat_at - make_interval(secs => @ttl_s::float8) * 0.6
), pick AS (
  SELECT s.id, s.fence FROM sessions s JOIN dead d ON d.id = s.owner
  WHERE s.state = 3
    AND NOT EXISTS (SELECT 1 FROM submissions r WHERE r.session_id = s.id AND r.attempts > 0 AND r.state IN (2, 4))
  ORDER BY s.touched_at LIMIT @most FOR UPDATE OF s SKIP LOCKED
)
UPDATE sessions s SET owner = @owner::uuid, fence = s.fence + 1, index_due = true, touched_at = clock_timestamp()
FROM pick WHERE s.id = pick.id AND s.fence = pick.fence
RETURNING s.id, s.tenant_id, s.agent, s.fence, s.base_seq;

-- name: ClaimSuspects :many
-- As ClaimReady and ClaimDead, of the sessions over whose submission least to upto owners have died, with this takeover. With a
-- cap, most is 1.
WITH dead AS (
  SELECT e.id FROM executors e, executors me WHERE @judges::boolean AND me.id = @owner::uuid
    AND e.beat_at < clock_timestamp() - make_interval(secs => @ttl_s::float8)
    AND greatest(e.beat_at, me.started_at) < me.beat_at - make_interval(secs => @ttl_s::float8) * 0.6
), pick AS (
  SELECT s.id, s.fence, s.state, s.parked_at
  FROM submissions r JOIN sessions s ON s.id = r.session_id
  WHERE r.attempts > 0 AND r.state IN (2, 4) AND (
    s.state = 2 AND s.wake_at <= (SELECT clock_timestamp()) AND r.attempts BETWEEN @least::integer AND @upto::integer
      AND (@cap::bigint = 0 OR @cap::bigint > (SELECT count(*) FROM sessions b WHERE b.tenant_id = s.tenant_id AND b.state = 3))
    OR s.state = 3 AND s.owner IN (SELECT id FROM dead) AND r.attempts + 1 BETWEEN @least::integer AND @upto::integer)
  ORDER BY s.touched_at LIMIT @most FOR UPDATE OF s SKIP LOCKED
)
UPDATE sessions s SET state = 3, owner = @owner::uuid, fence = s.fence + 1, parked_at = NULL, index_due = true, touched_at = clock_timestamp()
FROM pick WHERE s.id = pick.id AND s.fence = pick.fence
RETURNING s.id, s.tenant_id, s.agent, s.fence, (pick.state = 3)::boolean AS died,
  coalesce(extract(epoch FROM clock_timestamp() - pick.parked_at), 0)::float8 AS parked_s;

-- name: DeadLeft :one
SELECT s.id, s.fence FROM sessions s JOIN executors e ON e.id = s.owner JOIN executors me ON me.id = @owner::uuid
WHERE s.state = 3 AND e.beat_at < clock_timestamp() - make_interval(secs => @ttl_s::float8)
  AND greatest(e.beat_at, me.started_at) < me.beat_at - make_interval(secs => @ttl_s::float8) * 0.6
  AND NOT EXISTS (SELECT 1 FROM submissions r WHERE r.session_id = s.id AND r.attempts >= @upto::integer AND r.state IN (2, 4))
ORDER BY s.touched_at LIMIT 1;

-- name: ClaimBusyDead :many
-- Waits for the row's lock, so that an owner that is dead by its beats but still appends cannot keep it for ever.
UPDATE sessions s SET owner = @owner::uuid, fence = s.fence + 1, index_due = true, touched_at = clock_timestamp()
WHERE s.id = @id AND s.fence = @fence AND s.state = 3
RETURNING s.id, s.tenant_id, s.agent, s.fence, s.base_seq;

-- name: Park :many
-- After HoldForUpdate in the same transaction, in a statement of its own: its snapshot must see what was committed
-- while the lock was waited for.
UPDATE sessions s SET owner = NULL, index_due = true, touched_at = clock_timestamp(),
  state = CASE WHEN EXISTS (SELECT 1 FROM submissions r WHERE r.session_id = s.id AND r.state IN (2, 4)) THEN 4 ELSE 1 END,
  parked_at = clock_timestamp()
WHERE s.id = @id AND s.owner = @owner::uuid AND s.fence = @fence
  AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.session_id = s.id AND a.state <> 1 AND a.delivered_seq IS NULL)
  AND NOT EXISTS (SELECT 1 FROM callbacks c WHERE c.session_id = s.id AND c.state = 1)
  AND NOT EXISTS (SELECT 1 FROM submissions r WHERE r.session_id = s.id AND r.state IN (2, 4) AND (r.cancel_at IS NOT NULL OR r.state = 4))
  AND NOT EXISTS (SELECT 1 FROM submissions q WHERE q.session_id = s.id AND q.state = 1 AND q.cancel_at IS NULL
    AND (q.answers OR q.joins = (SELECT r.id FROM submissions r WHERE r.session_id = s.id AND r.state = 2)))
  AND (EXISTS (SELECT 1 FROM submissions r WHERE r.session_id = s.id AND r.state IN (2, 4))
    OR NOT EXISTS (SELECT 1 FROM submissions q WHERE q.session_id = s.id AND q.state = 1))
RETURNING s.state;

-- name: Release :exec
-- After HoldForUpdate. News cut a back-off short.
UPDATE sessions s SET owner = NULL, state = 2, index_due = true, touched_at = clock_timestamp(),
  wake_at = clock_timestamp() + CASE
    WHEN EXISTS (SELECT 1 FROM approvals a WHERE a.session_id = s.id AND a.state <> 1 AND a.delivered_seq IS NULL)
      OR EXISTS (SELECT 1 FROM submissions r WHERE r.session_id = s.id AND r.state IN (2, 4) AND r.cancel_at IS NOT NULL)
    THEN interval '0' ELSE make_interval(secs => @after_s::float8) END
WHERE s.id = @id AND s.owner = @owner::uuid AND s.fence = @fence;

-- name: HoldForUpdate :exec
WITH own AS (SELECT 1 FROM sessions WHERE id = @id AND owner = @owner::uuid AND fence = @fence FOR UPDATE)
SELECT must((SELECT count(*) FROM own) = 1, 'FF001', 'fenced');

-- name: OwnSessions :many
SELECT id, fence FROM sessions WHERE state = 3 AND owner = @owner::uuid;
