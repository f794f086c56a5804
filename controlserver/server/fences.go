//go:build linux

package server

import (
	"fmt"
	"sync"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// fences knows the highest fence of every scope. A raise is on the disk before it counts.
type fences struct {
	spool *spool.Spool

	mu     sync.Mutex
	scopes map[string]*fence
}

type fence struct {
	mu     sync.RWMutex // written over the disk, read over an action of its holder
	loaded bool
	value  uint64
	raised bell
}

func newFences(s *spool.Spool) *fences { return &fences{spool: s, scopes: map[string]*fence{}} }

func (f *fences) of(scope string) *fence {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.scopes[scope]
	if s == nil {
		s = &fence{}
		f.scopes[scope] = s
	}
	return s
}

// see remembers a request's fence when it is the highest and returns the highest.
func (f *fences) see(scope string, value uint64) (uint64, error) {
	s := f.of(scope)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded {
		known, err := f.spool.Fence(scope)
		if err != nil {
			return 0, err
		}
		s.value, s.loaded = known, true
	}
	if value > s.value {
		if err := f.spool.RaiseFence(scope, value); err != nil {
			return 0, err
		}
		s.value = value
		s.raised.ring()
	}
	return s.value, nil
}

// guard refuses a fence that is not the highest, and keeps a higher one from being accepted until
// release: what the holder does in between is done before the next owner is told that it owns.
func (f *fences) guard(scope string, value uint64) (release func(), err error) {
	if _, err := f.see(scope, value); err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	s := f.of(scope)
	s.mu.RLock()
	if value < s.value {
		defer s.mu.RUnlock()
		e := wire.Refuse(wirev1.ErrorReason_ERROR_REASON_FENCED, "fence %d of this scope is over, the machine has seen %d", value, s.value)
		e.Fence = s.value
		return nil, e
	}
	return s.mu.RUnlock, nil
}

// superseded refuses a reader whose fence is over; the bell tells when to look again.
func (f *fences) superseded(scope string, value uint64) (<-chan struct{}, error) {
	s := f.of(scope)
	again := s.raised.C()
	highest, err := f.see(scope, value)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	if value < highest {
		e := wire.Refuse(wirev1.ErrorReason_ERROR_REASON_SUPERSEDED, "another owner of this scope has taken over with fence %d", highest)
		e.Fence = highest
		return nil, e
	}
	return again, nil
}
