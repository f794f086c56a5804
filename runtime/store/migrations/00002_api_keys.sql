-- +goose Up

-- sha256 is of the secret bytes; they are random, and nobody has them but the tenant.
CREATE TABLE api_keys (
  id         text PRIMARY KEY,
  tenant_id  text NOT NULL,
  sha256     bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at timestamptz,
  revoked_at timestamptz
);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id);
