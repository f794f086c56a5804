package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/apikey"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// storedKeys are the keys in the database.
type storedKeys struct{ store *store.Store }

// APIKey is apikey.Source's.
func (s storedKeys) APIKey(ctx context.Context, id string) (apikey.Key, error) {
	k, err := s.store.APIKey(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return apikey.Key{}, apikey.ErrUnknown
	}
	if err != nil {
		return apikey.Key{}, err
	}
	key := apikey.Key{ID: k.ID, Tenant: k.Tenant}
	if copy(key.Hash[:], k.SHA256) != len(key.Hash) {
		return apikey.Key{}, apikey.ErrUnknown
	}
	return key, nil
}

// AddKey makes an API key of a tenant, good for a lifetime (0: until it is revoked). The text is the only copy.
func AddKey(ctx context.Context, s *store.Store, tenant string, lifetime time.Duration) (text, id string, err error) {
	text, key, err := apikey.Mint(tenant)
	if err != nil {
		return "", "", err
	}
	err = s.PutAPIKey(ctx, store.APIKey{ID: key.ID, Tenant: key.Tenant, SHA256: key.Hash[:]}, lifetime)
	if err != nil {
		return "", "", err
	}
	return text, key.ID, nil
}
