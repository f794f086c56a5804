-- name: AppendOutput :many
-- A stale owner cannot add output: the fence is checked as in Append. Rows may come again after a lost answer.
WITH own AS (
  SELECT x.id FROM execs x JOIN sessions s ON s.id = x.session_id
  JOIN (SELECT unnest(@execs::uuid[]) AS id, unnest(@owners::uuid[]) AS owner, unnest(@fences::bigint[]) AS fence) c
    ON c.id = x.id AND c.owner = s.owner AND c.fence = s.fence
  FOR SHARE OF s
), added AS (
  INSERT INTO exec_output (exec_id, stream, off, raw_len, data)
  SELECT e.exec_id, e.stream, e.off, e.raw_len, e.data FROM (
    SELECT unnest(@exec::uuid[]) AS exec_id, unnest(@streams::smallint[]) AS stream, unnest(@offs::bigint[]) AS off,
      unnest(@raw_lens::bigint[]) AS raw_len, unnest(@datas::bytea[]) AS data
  ) e JOIN own ON own.id = e.exec_id
  ON CONFLICT DO NOTHING
)
SELECT id FROM own;

-- name: OutputEnds :many
SELECT stream, max(off + raw_len)::bigint AS ends FROM exec_output WHERE exec_id = @exec_id GROUP BY stream;

-- name: ReadOutput :many
SELECT o.stream, o.off, o.raw_len, o.data FROM exec_output o JOIN execs x ON x.id = o.exec_id JOIN sessions s ON s.id = x.session_id
WHERE o.exec_id = @exec_id AND s.tenant_id = @tenant_id AND o.stream = @stream AND o.off + o.raw_len > @from_off::bigint
ORDER BY o.off LIMIT @most;

-- name: GetExec :one
SELECT x.* FROM execs x JOIN sessions s ON s.id = x.session_id WHERE x.id = @id AND s.tenant_id = @tenant_id;

-- name: RunningExecs :many
SELECT * FROM execs WHERE session_id = @session_id AND state = 1 ORDER BY started_at;
