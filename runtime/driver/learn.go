package driver

import (
	"context"
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
	return s.learn(s.working()...)
}

// working are the claim's submission and those that have joined it.
func (s *session) working() []uuid.UUID {
	if s.claim.Submission == nil {
		return nil
	}
	ids := []uuid.UUID{s.claim.Submission.ID}
	for _, submission := range s.state.Submissions {
		if submission.Joins == s.claim.Submission.ID {
			ids = append(ids, submission.ID)
		}
	}
	return ids
}

// learn masks the credentials of submissions too.
func (s *session) learn(submissions ...uuid.UUID) error {
	if s.options.Sealer == nil {
		return nil
	}
	for _, id := range submissions {
		byName, err := s.credentials(s.ctx, id)
		if err != nil {
			return err
		}
		for _, value := range byName {
			s.known = append(s.known, value)
		}
	}
	s.mask = secrets.NewRedactor(s.known...)
	return nil
}

// credentials are those of a submission, by name.
func (s *session) credentials(ctx context.Context, id uuid.UUID) (map[string]string, error) {
	sealed, err := s.options.Store.Credentials(ctx, s.claim, id)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrExpired):
		return nil, nil
	case err != nil:
		return nil, err
	}
	plain, err := s.options.Sealer.Open(ctx, id, secrets.Sealed{KeyID: sealed.KeyID, Data: sealed.Data})
	if err != nil {
		return nil, err
	}
	byName, err := DecodeCredentials(plain)
	if err != nil {
		return nil, fmt.Errorf("submission %s: %w", id, err)
	}
	return byName, nil
}
