package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

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

// learnClaim finds out which values are to be masked while the claim's submission is worked on, and those that have joined it.
func (s *session) learnClaim() error {
	s.known = slices.Clone(s.options.Known)
	s.mask = secrets.NewRedactor(s.known...)
	if s.claim.Submission == nil {
		return nil
	}
	ids := []uuid.UUID{s.claim.Submission.ID}
	for _, submission := range s.state.Submissions {
		if submission.Joins == s.claim.Submission.ID {
			ids = append(ids, submission.ID)
		}
	}
	return s.learn(ids...)
}

// learn masks the credentials of submissions too.
func (s *session) learn(submissions ...uuid.UUID) error {
	if s.options.Sealer == nil {
		return nil
	}
	for _, id := range submissions {
		values, err := s.credentials(id)
		if err != nil {
			return err
		}
		s.known = append(s.known, values...)
	}
	s.mask = secrets.NewRedactor(s.known...)
	return nil
}

func (s *session) credentials(id uuid.UUID) ([]string, error) {
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
