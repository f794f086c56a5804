-- name: PutMachine :exec
INSERT INTO machines (id, app, tenant_id, pool, address, epoch, image)
VALUES (@id, @app, sqlc.narg(tenant_id), @pool, @address, @epoch, @image)
ON CONFLICT (id) DO UPDATE SET app = excluded.app, tenant_id = coalesce(machines.tenant_id, excluded.tenant_id), pool = excluded.pool,
  address = excluded.address, epoch = excluded.epoch, image = excluded.image, seen_at = clock_timestamp();

-- name: PutSlots :exec
INSERT INTO machine_slots (machine_id, slot) SELECT @machine_id::text, generate_series(1, @slots::integer) ON CONFLICT DO NOTHING;

-- name: GetMachine :one
SELECT * FROM machines WHERE id = @id;

-- name: UseMachine :one
-- The lock waits for a rest that begins at this moment (LockMachine), so that what is read holds.
SELECT * FROM machines WHERE id = @id FOR SHARE;

-- name: LockMachine :one
SELECT * FROM machines WHERE id = @id FOR UPDATE;

-- name: TenantMachines :many
SELECT * FROM machines WHERE tenant_id = @tenant_id AND state <> 2 ORDER BY id;

-- name: FreeSlotCount :one
SELECT count(*) FROM machine_slots WHERE machine_id = @machine_id AND session_id IS NULL;

-- name: LockTenant :exec
-- Whoever gives a tenant a machine is alone in it.
SELECT pg_advisory_xact_lock(hashtextextended('machine of ' || @tenant_id::text, 0));

-- name: ClaimFromPool :one
-- For good: a machine never serves two tenants.
UPDATE machines m SET tenant_id = @tenant_id::text WHERE m.id = (
  SELECT f.id FROM machines f WHERE f.pool = @pool::text AND f.tenant_id IS NULL AND f.state = 1 ORDER BY f.id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING *;

-- name: RetireMachine :exec
UPDATE machines SET state = 2 WHERE id = @id;

-- name: IdleMachines :many
-- No session of the tenant is at work, or was lately, but for those that have a slot on another machine.
SELECT * FROM machines m WHERE m.state = 1 AND m.tenant_id IS NOT NULL AND m.idle_at < clock_timestamp() - make_interval(secs => @idle_s::float8)
  AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.tenant_id = m.tenant_id AND s.state IN (2, 3)
    AND NOT EXISTS (SELECT 1 FROM machine_slots h WHERE h.session_id = s.id AND h.machine_id <> m.id))
  AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.tenant_id = m.tenant_id AND s.state IN (1, 5)
    AND s.touched_at > clock_timestamp() - make_interval(secs => @idle_s::float8))
  AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.tenant_id = m.tenant_id AND s.state = 4
    AND s.touched_at > clock_timestamp() - make_interval(secs => @idle_s::float8))
  AND NOT EXISTS (SELECT 1 FROM execs x WHERE x.machine_id = m.id AND x.state = 1)
ORDER BY m.id LIMIT @most;

-- name: BeginRest :execrows
-- After LockMachine in the same transaction: what a session that was first has written is seen here, and one that
-- comes later finds the machine at rest.
UPDATE machines m SET state = 3 WHERE m.id = @id AND m.state = 1 AND m.tenant_id IS NOT NULL
  AND m.idle_at < clock_timestamp() - make_interval(secs => @idle_s::float8)
  AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.tenant_id = m.tenant_id AND s.state IN (2, 3)
    AND NOT EXISTS (SELECT 1 FROM machine_slots h WHERE h.session_id = s.id AND h.machine_id <> m.id))
  AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.tenant_id = m.tenant_id AND s.state IN (1, 5)
    AND s.touched_at > clock_timestamp() - make_interval(secs => @idle_s::float8))
  AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.tenant_id = m.tenant_id AND s.state = 4
    AND s.touched_at > clock_timestamp() - make_interval(secs => @idle_s::float8))
  AND NOT EXISTS (SELECT 1 FROM execs x WHERE x.machine_id = m.id AND x.state = 1);

-- name: EndRest :exec
UPDATE machines SET state = CASE state WHEN 3 THEN 1 ELSE state END, idle_at = clock_timestamp() WHERE id = @id;

-- name: RetiredAmong :many
SELECT id FROM machines WHERE id = ANY(@ids::text[]) AND state = 2 ORDER BY id;

-- name: ExecSlot :one
-- A command with its tenant and, as long as its session has it, the slot on the command's machine.
SELECT x.id, x.session_id, x.call_id, x.machine_id, x.state, s.tenant_id, coalesce(h.slot, 0)::integer AS slot, h.claimed_at,
  EXISTS (SELECT 1 FROM machine_slots m WHERE m.machine_id = x.machine_id)::boolean AS slotted
FROM execs x JOIN sessions s ON s.id = x.session_id LEFT JOIN machine_slots h ON h.session_id = x.session_id AND h.machine_id = x.machine_id
WHERE x.id = @id;

-- name: SessionSlot :one
SELECT machine_id, slot, coalesce(fence, 0)::bigint AS fence, claimed_at FROM machine_slots WHERE session_id = @session_id::uuid;

-- name: ReleaseIdleSlots :execrows
-- Of sessions that have nothing to do and no command running.
WITH idle AS (
  SELECT m.machine_id, m.slot FROM machine_slots m JOIN sessions s ON s.id = m.session_id
  WHERE s.state IN (1, 5) AND s.touched_at < clock_timestamp() - make_interval(secs => @idle_s::float8)
    AND NOT EXISTS (SELECT 1 FROM execs x WHERE x.session_id = s.id AND x.state = 1)
  FOR UPDATE OF s, m SKIP LOCKED
), freed AS (
  UPDATE machine_slots m SET session_id = NULL, fence = NULL, claimed_at = NULL FROM idle WHERE m.machine_id = idle.machine_id AND m.slot = idle.slot
  RETURNING m.machine_id
)
UPDATE machines SET idle_at = clock_timestamp() WHERE id IN (SELECT f.machine_id FROM freed f);
