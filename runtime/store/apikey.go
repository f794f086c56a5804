package store

import (
	"context"
	"fmt"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// APIKey is what is kept of a tenant's key: never the key.
type APIKey struct {
	// ID is public.
	ID     string
	Tenant string
	// SHA256 is of the secret bytes. Lists do not have it.
	SHA256    []byte
	CreatedAt time.Time
	// Dead ones are revoked or expired.
	Dead bool
}

// PutAPIKey keeps a key, for the given time (0: until it is revoked).
func (s *Store) PutAPIKey(ctx context.Context, k APIKey, lifetime time.Duration) error {
	arg := statement.InsertAPIKeyParams{ID: k.ID, TenantID: k.Tenant, Sha256: nonNil(k.SHA256)}
	if lifetime > 0 {
		seconds := lifetime.Seconds()
		arg.ExpiresS = &seconds
	}
	// Not repeated after a lost answer: an id is fresh, and nobody has the key yet.
	if err := s.query.InsertAPIKey(ctx, arg); err != nil {
		return fmt.Errorf("store: keep an API key: %w", err)
	}
	return nil
}

// APIKey gives a key that is good now by the database's clock, or ErrNotFound. It does not wait for a database that is
// away: whoever asks is a stranger still.
func (s *Store) APIKey(ctx context.Context, id string) (APIKey, error) {
	row, err := found(s.query.GetAPIKey(ctx, id))
	if err != nil {
		return APIKey{}, fmt.Errorf("API key %s: %w", id, err)
	}
	return APIKey{ID: id, Tenant: row.TenantID, SHA256: row.Sha256}, nil
}

// RevokeAPIKey ends a key, or is ErrNotFound.
func (s *Store) RevokeAPIKey(ctx context.Context, id string) error {
	n, err := ask(ctx, s.query.RevokeAPIKey, id)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("API key %s: %w", id, err)
	}
	return nil
}

// APIKeys lists the keys of a tenant, or of all ("").
func (s *Store) APIKeys(ctx context.Context, tenant string) ([]APIKey, error) {
	rows, err := ask(ctx, s.query.ListAPIKeys, tenant)
	if err != nil {
		return nil, fmt.Errorf("store: list API keys: %w", err)
	}
	return each(rows, func(r statement.ListAPIKeysRow) APIKey {
		return APIKey{ID: r.ID, Tenant: r.TenantID, CreatedAt: r.CreatedAt, Dead: r.Dead}
	}), nil
}
