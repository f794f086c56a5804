package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// EncodeCredentials makes the text that is sealed as a submission's credentials: by name.
func EncodeCredentials(byName map[string]string) ([]byte, error) { return json.Marshal(byName) }

// DecodeCredentials reads it.
func DecodeCredentials(plain []byte) (map[string]string, error) {
	byName := map[string]string{}
	if err := json.Unmarshal(plain, &byName); err != nil {
		// The text itself must not get into an error.
		return nil, errors.New("the credentials are no JSON object of strings")
	}
	return byName, nil
}

// learn finds out which values are to be masked while the submission is worked on.
func (s *session) learn() error {
	known := slices.Clone(s.options.Known)
	if s.claim.Submission != nil && s.options.Sealer != nil {
		values, err := s.credentials()
		if err != nil {
			return err
		}
		known = append(known, values...)
	}
	s.mask = secrets.NewRedactor(known...)
	return nil
}

func (s *session) credentials() ([]string, error) {
	id := s.claim.Submission.ID
	sealed, err := s.options.Store.Credentials(s.ctx, s.claim, id)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrExpired):
		return nil, nil
	case err != nil:
		return nil, err
	}
	plain, err := s.options.Sealer.Open(s.ctx, id, secrets.Sealed{KeyID: sealed.KeyID, Data: sealed.Data})
	if err != nil {
		return nil, err
	}
	byName, err := DecodeCredentials(plain)
	if err != nil {
		return nil, fmt.Errorf("submission %s: %w", id, err)
	}
	values := make([]string, 0, len(byName))
	for _, value := range byName {
		values = append(values, value)
	}
	return values, nil
}
