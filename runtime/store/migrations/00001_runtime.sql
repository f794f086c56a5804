-- +goose Up

-- Search filters by tenant and words in one index.
CREATE EXTENSION IF NOT EXISTS btree_gin;

-- must ends the statement, and with it the transaction, when what it was promised does not hold. So a
-- transaction of many statements can be sent in one round trip and still stop at the first that found no row.
-- Codes: FF001 fenced, FF002 effect not startable, FF003 no free slot, FF004 row not in the state it must be in,
-- FF005 gap in the journal.
-- +goose StatementBegin
CREATE FUNCTION must(holds boolean, code text, what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF holds IS NOT TRUE THEN
    RAISE EXCEPTION '%', what USING ERRCODE = code;
  END IF;
END $$;
-- +goose StatementEnd

-- One row a replica; an id is of one process and never comes back.
CREATE TABLE executors (
  id         uuid PRIMARY KEY,
  address    text NOT NULL,
  version    text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  beat_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- state: 1 idle, 2 ready, 3 running, 4 parked, 5 closed.
CREATE TABLE sessions (
  id           uuid PRIMARY KEY,
  tenant_id    text NOT NULL,
  agent        text NOT NULL,
  state        smallint NOT NULL DEFAULT 1,
  owner        uuid REFERENCES executors,
  fence        bigint NOT NULL DEFAULT 0,
  wake_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  parked_at    timestamptz,
  parent_id    uuid,
  -- The first entry of the session's own has base_seq + 1; entries up to base_seq are its ancestors'.
  base_seq     bigint NOT NULL DEFAULT 0,
  lineage      uuid[] NOT NULL DEFAULT '{}',
  lineage_upto bigint[] NOT NULL DEFAULT '{}',
  -- Ancestors whose entries were copied in: an erasure there is one here.
  copied_from  uuid[] NOT NULL DEFAULT '{}',
  indexed_seq  bigint NOT NULL DEFAULT 0,
  index_due    boolean NOT NULL DEFAULT true,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  touched_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK ((state = 3) = (owner IS NOT NULL)),
  CHECK (cardinality(lineage) = cardinality(lineage_upto))
) WITH (fillfactor = 70);
CREATE INDEX sessions_ready ON sessions (wake_at) WHERE state = 2;
CREATE INDEX sessions_owned ON sessions (owner, tenant_id) WHERE state = 3;
CREATE INDEX sessions_tenant ON sessions (tenant_id, id);
CREATE INDEX sessions_at_work ON sessions (tenant_id) WHERE state IN (2, 3, 4);
CREATE INDEX sessions_touched ON sessions (tenant_id, touched_at) WHERE state IN (1, 5);
CREATE INDEX sessions_index_due ON sessions (id) WHERE index_due;
CREATE INDEX sessions_lineage ON sessions USING gin (lineage);
CREATE INDEX sessions_copied ON sessions USING gin (copied_from) WHERE copied_from <> '{}';

-- state: 1 queued, 2 running, 3 joined, 4 terminalizing, 5 settled.
CREATE TABLE submissions (
  id             uuid PRIMARY KEY,
  tenant_id      text NOT NULL,
  session_id     uuid NOT NULL REFERENCES sessions,
  idem_key       text NOT NULL,
  payload_sha    bytea NOT NULL,
  payload        bytea NOT NULL,
  ordinal        bigint NOT NULL,
  state          smallint NOT NULL DEFAULT 1,
  joins          uuid,
  time_limit_ms  bigint,
  deadline_at    timestamptz,
  cancel_at      timestamptz,
  attempts       integer NOT NULL DEFAULT 0,
  terminal       bytea,
  input_seq      bigint,
  settled_seq    bigint,
  outcome        smallint,
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  settled_at     timestamptz,
  UNIQUE (session_id, idem_key),
  UNIQUE (session_id, ordinal)
);
CREATE UNIQUE INDEX submissions_one_runs ON submissions (session_id) WHERE state IN (2, 4);
CREATE INDEX submissions_open ON submissions (session_id, ordinal) WHERE state <> 5;

CREATE TABLE submission_credentials (
  submission_id uuid PRIMARY KEY REFERENCES submissions ON DELETE CASCADE,
  key_id        text NOT NULL,
  sealed        bytea NOT NULL,
  expires_at    timestamptz
);

-- Ids are UUIDv7, so a range of them is a span of time.
CREATE TABLE journal (
  session_id    uuid NOT NULL,
  seq           bigint NOT NULL,
  fence         bigint NOT NULL,
  kind          smallint NOT NULL,
  submission_id uuid,
  call_id       text,
  at            timestamptz NOT NULL DEFAULT clock_timestamp(),
  body          bytea NOT NULL,
  blob_sha      bytea,
  PRIMARY KEY (session_id, seq)
) PARTITION BY RANGE (session_id);
CREATE TABLE journal_rest PARTITION OF journal DEFAULT;

-- A partition holds the sessions that were made in one month. It is filled in before it is attached, so that appends go
-- on meanwhile.
-- +goose StatementBegin
CREATE FUNCTION journal_month(at timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  month timestamptz := date_trunc('month', at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
  part  text := 'journal_' || to_char(month AT TIME ZONE 'UTC', 'YYYYMM');
  low   text := lpad(to_hex((extract(epoch FROM month) * 1000)::bigint), 12, '0');
  high  text := lpad(to_hex((extract(epoch FROM (month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC') * 1000)::bigint), 12, '0');
BEGIN
  IF to_regclass(part) IS NOT NULL THEN
    RETURN;
  END IF;
  EXECUTE format('CREATE TABLE %I (LIKE journal INCLUDING DEFAULTS)', part);
  EXECUTE format('ALTER TABLE journal ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part,
    (low || repeat('0', 20))::uuid, (high || repeat('0', 20))::uuid);
END $$;

-- Months before the given time in which nothing is left go.
CREATE FUNCTION journal_drop_empty(before timestamptz) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  part text;
  kept boolean;
  gone integer := 0;
BEGIN
  FOR part IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'journal'::regclass AND c.relname ~ '^journal_[0-9]{6}$'
      AND c.relname < 'journal_' || to_char(before AT TIME ZONE 'UTC', 'YYYYMM') LOOP
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', part) INTO kept;
    IF NOT kept THEN
      EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', part);
      EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', part) INTO kept;
    END IF;
    IF NOT kept THEN
      EXECUTE format('DROP TABLE %I', part);
      gone := gone + 1;
    END IF;
  END LOOP;
  RETURN gone;
END $$;
-- +goose StatementEnd
SELECT journal_month(now()), journal_month(now() + interval '1 month');

-- state: 1 intended, 2 parked, 3 started, 4 settled.
CREATE TABLE effects (
  session_id    uuid NOT NULL REFERENCES sessions,
  call_id       text NOT NULL,
  submission_id uuid,
  class         smallint NOT NULL,
  state         smallint NOT NULL DEFAULT 1,
  tool          text NOT NULL,
  args_sha      bytea NOT NULL,
  approval_id   uuid,
  started_fence bigint,
  started_seq   bigint,
  settled_seq   bigint,
  outcome       smallint,
  PRIMARY KEY (session_id, call_id)
);

-- state: 1 pending, 2 approved, 3 denied, 4 expired, 5 cancelled.
CREATE TABLE approvals (
  id            uuid PRIMARY KEY,
  tenant_id     text NOT NULL,
  session_id    uuid NOT NULL REFERENCES sessions,
  submission_id uuid,
  call_id       text NOT NULL,
  args_sha      bytea NOT NULL,
  summary       bytea NOT NULL DEFAULT '',
  state         smallint NOT NULL DEFAULT 1,
  requested_seq bigint NOT NULL,
  requested_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at    timestamptz NOT NULL,
  decided_by    text NOT NULL DEFAULT '',
  decision_key  text NOT NULL DEFAULT '',
  reason        text NOT NULL DEFAULT '',
  -- Arguments that a person put in place of those shown; then allowed_sha is theirs.
  edited_args   bytea,
  allowed_sha   bytea,
  decided_at    timestamptz,
  delivered_seq bigint,
  consumed_seq  bigint,
  UNIQUE (session_id, call_id)
);
CREATE INDEX approvals_due ON approvals (expires_at) WHERE state = 1;
CREATE INDEX approvals_pending ON approvals (tenant_id, requested_at) WHERE state = 1;
CREATE INDEX approvals_news ON approvals (session_id) WHERE state <> 1 AND delivered_seq IS NULL;

-- state: 1 usable, 2 retired, 3 on its way to rest.
-- pool is where it waits for a tenant; together with a tenant it says that the claim is not known on the machine yet.
CREATE TABLE machines (
  id        text PRIMARY KEY,
  app       text NOT NULL,
  tenant_id text,
  pool      text NOT NULL DEFAULT '',
  address   text NOT NULL DEFAULT '',
  epoch     text NOT NULL DEFAULT '',
  image     text NOT NULL DEFAULT '',
  state     smallint NOT NULL DEFAULT 1,
  seen_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- When it last lost a slot or was first seen.
  idle_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX machines_tenant ON machines (tenant_id) WHERE tenant_id IS NOT NULL;
CREATE INDEX machines_pool ON machines (pool, id) WHERE tenant_id IS NULL;

CREATE TABLE machine_slots (
  machine_id text NOT NULL REFERENCES machines ON DELETE CASCADE,
  slot       integer NOT NULL,
  session_id uuid UNIQUE,
  fence      bigint,
  claimed_at timestamptz,
  PRIMARY KEY (machine_id, slot)
);

-- state: 1 started, 2 exited, 3 lost.
CREATE TABLE execs (
  id          uuid PRIMARY KEY,
  session_id  uuid NOT NULL,
  call_id     text NOT NULL,
  machine_id  text NOT NULL,
  epoch       text NOT NULL,
  fence       bigint NOT NULL,
  state       smallint NOT NULL DEFAULT 1,
  code        integer,
  stdout_end  bigint,
  stderr_end  bigint,
  started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended_at    timestamptz,
  FOREIGN KEY (session_id, call_id) REFERENCES effects
);
CREATE INDEX execs_session ON execs (session_id, call_id);
CREATE INDEX execs_running ON execs (machine_id) WHERE state = 1;
CREATE INDEX execs_ended ON execs (ended_at) WHERE state <> 1;

-- stream: 1 stdout, 2 stderr. off and raw_len count bytes of the machine's spool; masked data may be shorter.
CREATE TABLE exec_output (
  exec_id uuid NOT NULL,
  stream  smallint NOT NULL,
  off     bigint NOT NULL,
  raw_len bigint NOT NULL,
  data    bytea NOT NULL,
  PRIMARY KEY (exec_id, stream, off)
);

CREATE TABLE blobs (
  tenant_id  text NOT NULL,
  sha        bytea NOT NULL,
  size       bigint NOT NULL,
  media_type text NOT NULL DEFAULT '',
  data       bytea NOT NULL,
  touched_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (tenant_id, sha)
);
CREATE INDEX blobs_touched ON blobs (touched_at);

-- Which sessions still need a blob.
CREATE TABLE blob_refs (
  tenant_id  text NOT NULL,
  sha        bytea NOT NULL,
  session_id uuid NOT NULL,
  PRIMARY KEY (tenant_id, sha, session_id)
);
CREATE INDEX blob_refs_session ON blob_refs (session_id);

CREATE TABLE journal_fts (
  tenant_id  text NOT NULL,
  session_id uuid NOT NULL,
  seq        bigint NOT NULL,
  kind       smallint NOT NULL,
  words      text NOT NULL,
  tsv        tsvector NOT NULL,
  PRIMARY KEY (session_id, seq)
);
CREATE INDEX journal_fts_words ON journal_fts USING gin (tenant_id, tsv);

-- A cache: losing a row costs a longer fold.
CREATE TABLE fold_checkpoints (
  session_id uuid PRIMARY KEY,
  seq        bigint NOT NULL,
  version    integer NOT NULL,
  data       bytea NOT NULL
);
