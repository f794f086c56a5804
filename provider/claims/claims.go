// Package claims keeps one object from being taken for two resources.
//
// A create finds again what an interrupted one left behind, by a deterministic key (a machine's app and name, a volume's
// app, name and region). The key alone cannot tell what was left behind from what another resource of the same state
// stands for, and a provider sees neither the state nor the addresses of its resources; nor does anything that it notes
// in a plan reach the apply of a create, which runs in another process. So each step says what it sees: two creates of
// one key, or a create before another resource's object of that key, are an error in the plan, and what one create of
// an apply has taken no other gets.
//
// Terraform plans a replacement as two steps, the object that exists and then a create of the same key. A second
// resource that comes in this order looks just like it and is let through; Terraform reads existing objects before it
// plans them, so new resources nearly always come first.
package claims

import (
	"fmt"
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

// String is kind and name.
func (k Key) String() string { return k.Kind + " " + k.Name }

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
	taken   map[string]bool
	adopted map[Key]bool
}

// New makes an empty registry.
func New() *Registry {
	return &Registry{created: map[Key]bool{}, taken: map[string]bool{}, adopted: map[Key]bool{}}
}

// Exists notes that the plan keeps or changes a resource whose object exists. It is not asked of one that is destroyed: after a
// replacement that creates first, Terraform plans the end of the old object once more during the apply.
func (r *Registry) Exists(key Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.created[key] {
		return &TwiceError{Key: key}
	}
	return nil
}

// Creates notes that the plan has a resource that is to be created.
func (r *Registry) Creates(key Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.created[key] {
		return &TwiceError{Key: key}
	}
	r.created[key] = true
	return nil
}

// Take makes an object, by its id or key, the caller's alone for the life of the process; false when it is another's
// already.
func (r *Registry) Take(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken[id] {
		return false
	}
	r.taken[id] = true
	return true
}

// Adopt notes that this process found an object instead of creating it, so that what is in it may be found too.
func (r *Registry) Adopt(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.adopted[key] = true
}

// Fresh reports that this process created the object, so that nothing older can be in it.
func (r *Registry) Fresh(key Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken[key.String()] && !r.adopted[key]
}
