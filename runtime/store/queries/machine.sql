-- name: PutMachine :exec
INSERT INTO machines (id, app, tenant_id, pool, address, epoch, image)
VALUES (@id, @app, sqlc.narg(tenant_id), @pool, @address, @epoch, @image)
ON CONFLICT (id) DO UPDATE SET app = excluded.app, tenant_id = coalesce(machines.tenant_id, excluded.tenant_id), pool = excluded.pool,
  address = excluded.address, epoch = excluded.epoch, image = excluded.image, seen_at = clock_timestamp();

-- name: PutSlots :exec
INSERT INTO machine_slots (machine_id, slot) SELECT @machine_id::text, generate_series(1, @slots::integer) ON CONFLICT DO NOTHING;

-- name: GetMachine :one
SELECT * FROM machines WHERE id = @id;

-- name: TenantMachines :many
SELECT * FROM machines WHERE tenant_id = @tenant_id AND state = 1 ORDER BY id;

-- name: ClaimFromPool :one
-- For good: a machine never serves two tenants.
UPDATE machines m SET tenant_id = @tenant_id::text WHERE m.id = (
  SELECT f.id FROM machines f WHERE f.pool = @pool::text AND f.tenant_id IS NULL AND f.state = 1 ORDER BY f.id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING *;

-- name: RetireMachine :exec
UPDATE machines SET state = 2 WHERE id = @id;

-- name: IdleMachines :many
SELECT * FROM machines m WHERE m.state = 1 AND m.tenant_id IS NOT NULL AND m.idle_at < clock_timestamp() - make_interval(secs => @idle_s::float8)
  AND NOT EXISTS (SELECT 1 FROM machine_slots s WHERE s.machine_id = m.id AND s.session_id IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM execs x WHERE x.machine_id = m.id AND x.state = 1)
ORDER BY m.id LIMIT @most;

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
