// Package claims keeps one object from being taken for two resources.
//
// A create finds again what an interrupted one left behind, by a deterministic key (a machine's app and name, a
// volume's app, name and region). The key alone cannot tell what was left behind from what another resource of the
// same state stands for, and a provider sees neither the state nor the addresses of its resources. So each plan step
// says what it saw: a create takes nothing that another resource holds, and two creates of one key are an error.
//
// Terraform plans a replacement as two steps in this order: the object that exists, then a create of the same key. A
// second resource looks just like that, so a create after an existing object only excludes that object; the other
// order, and two creates, can only be two resources.
package claims

import (
	"fmt"
	"slices"
	"sync"
)

// Key names an object before it has an id.
type Key struct {
	// Kind is "app", "machine", "volume" or "address".
	Kind string
	// Name is what makes the object findable, in words that an error can show.
	Name string
}

// App is the key of an app.
func App(name string) Key { return Key{Kind: "app", Name: fmt.Sprintf("%q", name)} }

// TwiceError says that two resources of one configuration stand for the same object.
type TwiceError struct {
	Key Key
}

// Error implements error.
func (e *TwiceError) Error() string {
	return fmt.Sprintf("two resources of this configuration are the same %s, %s; by that name an interrupted create is found again, so it must be one resource's own. "+
		"Give them different names, or where a resource was renamed say so with a `moved` block", e.Key.Kind, e.Key.Name)
}

// Registry is safe for concurrent use. It lives as long as the configured provider.
type Registry struct {
	mu      sync.Mutex
	created map[Key]bool
	held    map[Key][]string
	made    map[string]bool
	adopted map[Key]bool
}

// New makes an empty registry.
func New() *Registry {
	return &Registry{created: map[Key]bool{}, held: map[Key][]string{}, made: map[string]bool{}, adopted: map[Key]bool{}}
}

// Exists notes a resource that stands for the object id.
func (r *Registry) Exists(key Key, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.created[key] {
		return &TwiceError{Key: key}
	}
	if !slices.Contains(r.held[key], id) {
		r.held[key] = append(r.held[key], id)
	}
	return nil
}

// Creates notes a resource that is to be created and returns the objects of that key which are other resources' (or the
// one it replaces), so that it must not adopt them.
func (r *Registry) Creates(key Key) (held []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.created[key] {
		return nil, &TwiceError{Key: key}
	}
	r.created[key] = true
	return slices.Clone(r.held[key]), nil
}

// Take makes id the caller's alone, for the life of the process; false when it is another's already.
func (r *Registry) Take(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made[id] {
		return false
	}
	r.made[id] = true
	return true
}

// Made reports that Take was called for id.
func (r *Registry) Made(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.made[id]
}

// Adopt notes that this process found an object instead of creating it, so that what is in it may be found too.
func (r *Registry) Adopt(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.adopted[key] = true
}

// Adopted reports that Adopt was called.
func (r *Registry) Adopted(key Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.adopted[key]
}
