-- name: InsertAPIKey :exec
INSERT INTO api_keys (id, tenant_id, sha256, expires_at)
VALUES (@id, @tenant_id, @sha256, clock_timestamp() + make_interval(secs => sqlc.narg(expires_s)::float8));

-- name: GetAPIKey :one
SELECT tenant_id, sha256 FROM api_keys
WHERE id = @id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp());

-- name: RevokeAPIKey :execrows
UPDATE api_keys SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = @id;

-- name: ListAPIKeys :many
SELECT id, tenant_id, created_at, expires_at,
  (revoked_at IS NOT NULL OR expires_at IS NOT NULL AND expires_at <= clock_timestamp())::boolean AS dead
FROM api_keys WHERE (@tenant_id::text = '' OR tenant_id = @tenant_id) ORDER BY tenant_id, created_at, id;
