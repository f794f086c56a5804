-- +goose Up

-- What commands ask for on the way back. The journal says that it was asked and what came of it; this is the request
-- and the answer in their bytes, for as long as the command may come for them.
-- state: 1 asked, 2 taken by the session's owner, 3 answered.
CREATE TABLE callbacks (
  session_id  uuid NOT NULL REFERENCES sessions,
  call_id     text NOT NULL,
  exec_id     uuid NOT NULL,
  -- The command gave it a name; otherwise equal requests are one call until one was told its answer.
  named       boolean NOT NULL,
  tool        text NOT NULL,
  args        bytea NOT NULL,
  body        bytea NOT NULL,
  sha         bytea NOT NULL,
  state       smallint NOT NULL DEFAULT 1,
  outcome     smallint,
  content     bytea NOT NULL DEFAULT '',
  answer      bytea NOT NULL DEFAULT '',
  told        boolean NOT NULL DEFAULT false,
  asked_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  answered_at timestamptz,
  PRIMARY KEY (session_id, call_id)
);
CREATE INDEX callbacks_asked ON callbacks (session_id, asked_at) WHERE state = 1;
CREATE INDEX callbacks_exec ON callbacks (exec_id);
CREATE INDEX callbacks_answered ON callbacks (answered_at) WHERE state = 3;
