-- name: GetCallback :one
SELECT session_id, exec_id, call_id, tool, args, body, state FROM callbacks WHERE session_id = @session_id AND call_id = @call_id;

-- name: CallbackState :one
SELECT state FROM callbacks WHERE session_id = @session_id AND call_id = @call_id;

-- name: CallbackAnswer :one
-- Without the request, which may be as large again.
SELECT outcome, content, answer FROM callbacks WHERE session_id = @session_id AND call_id = @call_id;

-- name: NamedCallback :one
SELECT call_id, state, sha FROM callbacks WHERE session_id = @session_id AND call_id = @call_id;

-- name: UntoldCallback :one
-- An equal request without a name whose answer nobody has got yet.
SELECT call_id, state, sha FROM callbacks WHERE exec_id = @exec_id AND sha = @sha AND NOT named AND NOT told ORDER BY asked_at DESC LIMIT 1;

-- name: CountCallbacks :one
-- Of a command: all, those without an answer, and those that are equal and have no name.
SELECT count(*) AS made, count(*) FILTER (WHERE state <> 3) AS open, count(*) FILTER (WHERE sha = @sha AND NOT named) AS equal
FROM callbacks WHERE exec_id = @exec_id;

-- name: ExecRuns :one
SELECT EXISTS (SELECT 1 FROM execs WHERE id = @id AND session_id = @session_id AND state = 1)::boolean AS runs;

-- name: InsertCallback :exec
INSERT INTO callbacks (session_id, call_id, exec_id, named, tool, args, body, sha)
VALUES (@session_id, @call_id, @exec_id, @named, @tool, @args, @body, @sha);

-- name: AskedCallbacks :many
SELECT session_id, exec_id, call_id, tool, args, body, state FROM callbacks WHERE session_id = @session_id AND state = 1 ORDER BY asked_at, call_id LIMIT @most;

-- name: TakeCallback :exec
WITH taken AS (
  UPDATE callbacks SET state = 2 WHERE session_id = @session_id AND call_id = @call_id AND state = 1 RETURNING 1
)
SELECT must((SELECT count(*) FROM taken) = 1, 'FF004', 'nobody asks for the call, or it was taken');

-- name: AnswerCallback :exec
UPDATE callbacks SET state = 3, outcome = @outcome::smallint, content = @content, answer = @answer, answered_at = clock_timestamp()
WHERE session_id = @session_id AND call_id = @call_id AND state <> 3;

-- name: CloseCallbacks :exec
-- Those that nobody took end with their command (5: cancelled).
UPDATE callbacks SET state = 3, outcome = 5, content = 'Cancelled: the command that asked for it ended.', answered_at = clock_timestamp()
WHERE exec_id = @exec_id AND state = 1;

-- name: CallbackTold :exec
UPDATE callbacks SET told = true WHERE session_id = @session_id AND call_id = @call_id AND NOT told;

-- name: DropCallbacks :execrows
-- Of commands that have ended: nobody may come for them any more.
DELETE FROM callbacks c WHERE (c.session_id, c.call_id) IN (
  SELECT o.session_id, o.call_id FROM callbacks o WHERE o.state = 3 AND o.answered_at < clock_timestamp() - interval '1 hour'
    AND NOT EXISTS (SELECT 1 FROM execs x WHERE x.id = o.exec_id AND x.state = 1)
  ORDER BY o.answered_at LIMIT 1000);

-- name: EraseCallbacks :exec
-- Of a call of a command, or of the commands of a call.
UPDATE callbacks c SET args = '', body = '', content = '', answer = '' WHERE c.session_id = @session_id
  AND (c.call_id = @call_id OR c.exec_id IN (SELECT x.id FROM execs x WHERE x.session_id = @session_id AND x.call_id = @call_id));

-- name: DeleteCallbacks :exec
DELETE FROM callbacks WHERE session_id = @session_id;

-- name: WakeWaiting :many
-- Parked sessions that wait inside a command, and have not been looked at for so long.
WITH due AS (
  SELECT s.id FROM sessions s
  WHERE s.state = 4 AND s.parked_at < clock_timestamp() - make_interval(secs => @every_s::float8)
    AND s.id IN (SELECT x.session_id FROM execs x WHERE x.state = 1)
  ORDER BY s.parked_at LIMIT @most FOR UPDATE OF s SKIP LOCKED
)
UPDATE sessions s SET state = 2, wake_at = LEAST(s.wake_at, clock_timestamp()) FROM due WHERE s.id = due.id RETURNING s.id;
