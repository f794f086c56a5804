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

-- name: LoadPage :many
-- As LoadEntries, up to the entry that makes the page too big; the first is always in it. Sizes are known without reading
-- what is measured.
SELECT j.session_id, j.seq, j.fence, j.kind, j.submission_id, coalesce(j.call_id, '')::text AS call_id, j.at,
  coalesce(b.data, j.body)::bytea AS body, (j.blob_sha IS NOT NULL AND b.sha IS NULL)::boolean AS lost
FROM (
  SELECT p.session_id, p.seq, sum(octet_length(p.body) + coalesce(s.size, 0)) OVER (ORDER BY p.seq) AS upto,
    row_number() OVER (ORDER BY p.seq) AS nth
  FROM (
    SELECT e.session_id, e.seq, e.body, e.blob_sha
    FROM (
      SELECT unnest(@sessions::uuid[]) AS id, unnest(@afters::bigint[]) AS after, unnest(@uptos::bigint[]) AS upto
    ) r
    JOIN journal e ON e.session_id = r.id AND e.seq > r.after AND e.seq <= r.upto
    ORDER BY e.seq LIMIT @most
  ) p
  LEFT JOIN blobs s ON s.tenant_id = @tenant_id AND s.sha = p.blob_sha
) w
JOIN journal j ON j.session_id = w.session_id AND j.seq = w.seq
LEFT JOIN blobs b ON b.tenant_id = @tenant_id AND b.sha = j.blob_sha
WHERE w.upto <= @bytes::bigint OR w.nth = 1
ORDER BY j.seq;

-- name: CommandsAt :many
-- Commands of a session that ran when entry upto was its last. A fork has none of its ancestors'.
SELECT j.seq, j.body FROM journal j
WHERE j.session_id = @session_id AND j.kind = 13 AND j.seq <= @upto AND NOT EXISTS (
  SELECT 1 FROM journal e WHERE e.session_id = j.session_id AND e.kind IN (14, 15) AND e.seq > j.seq AND e.seq <= @upto AND e.call_id = j.call_id)
  AND j.seq > (SELECT coalesce(max(f.seq), 0) FROM journal f WHERE f.session_id = j.session_id AND f.kind = 2 AND f.seq <= @upto)
ORDER BY j.seq LIMIT @most;
