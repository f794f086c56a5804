-- name: GetBlob :one
SELECT data FROM blobs WHERE tenant_id = @tenant_id AND sha = @sha;

-- name: TouchBlobs :execrows
-- Keeps the collector off while a reference is being made.
UPDATE blobs SET touched_at = clock_timestamp() WHERE tenant_id = @tenant_id AND sha = ANY(@shas::bytea[]);
