-- name: LoadEntries :many
-- One index range an ancestor, then the session's own.
SELECT j.session_id, j.seq, j.fence, j.kind, j.submission_id, coalesce(j.call_id, '')::text AS call_id, j.at,
  coalesce(b.data, j.body)::bytea AS body, (j.blob_sha IS NOT NULL AND b.sha IS NULL)::boolean AS lost
FROM (
  SELECT unnest(@sessions::uuid[]) AS id, unnest(@afters::bigint[]) AS after, unnest(@uptos::bigint[]) AS upto
) r
JOIN journal j ON j.session_id = r.id AND j.seq > r.after AND j.seq <= r.upto
LEFT JOIN blobs b ON b.tenant_id = @tenant_id AND b.sha = j.blob_sha
ORDER BY j.seq LIMIT @most;
