package store

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// PutBlob stores bytes of a tenant under their SHA-256, which it returns. What no session refers to within a day is
// collected: name it in Input.Blobs.
func (s *Store) PutBlob(ctx context.Context, tenant, mediaType string, data []byte) ([]byte, error) {
	sum := sha256.Sum256(data)
	err := tell(ctx, s.query.StoreBlobs, statement.StoreBlobsParams{
		Tenants: []string{tenant}, Shas: [][]byte{sum[:]}, MediaTypes: []string{mediaType}, Datas: [][]byte{nonNil(data)},
	})
	if err != nil {
		return nil, fmt.Errorf("store: put blob: %w", err)
	}
	return sum[:], nil
}

// Blob gives the bytes of a tenant's blob, or ErrNotFound.
func (s *Store) Blob(ctx context.Context, tenant string, sha []byte) ([]byte, error) {
	data, err := found(ask(ctx, s.query.GetBlob, statement.GetBlobParams{TenantID: tenant, Sha: sha}))
	if err != nil {
		return nil, fmt.Errorf("blob %x: %w", sha, err)
	}
	return data, nil
}

// refer keeps blobs for as long as the session is kept.
func refer(ctx context.Context, q *statement.Queries, tenant string, session uuid.UUID, shas [][]byte) error {
	if len(shas) == 0 {
		return nil
	}
	var refs statement.ReferBlobsParams
	for _, sha := range shas {
		refs.Tenants, refs.Shas, refs.Sessions = append(refs.Tenants, tenant), append(refs.Shas, sha), append(refs.Sessions, session)
	}
	kept, err := q.TouchBlobs(ctx, statement.TouchBlobsParams{TenantID: tenant, Shas: shas})
	if err != nil {
		return err
	}
	if int(kept) != distinct(shas) {
		return fmt.Errorf("an attachment's blob: %w", ErrNotFound)
	}
	return q.ReferBlobs(ctx, refs)
}

func distinct(shas [][]byte) int {
	seen := map[string]bool{}
	for _, sha := range shas {
		seen[string(sha)] = true
	}
	return len(seen)
}
