package merge

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrNoImage says that a config has no top-level image to replace.
var ErrNoImage = errors.New("the config has no top-level image")

// SetImage replaces the value of the top-level "image" and leaves every other byte as it is: white space, key order,
// number text, escapes, unknown fields. Exactly the named key changes (flyctl#1906: an image update that also
// forced a restart policy). A config that names a key twice, anywhere, is a *DuplicateKeyError.
func SetImage(config json.RawMessage, image string) (json.RawMessage, error) {
	if image == "" {
		return nil, errors.New("set image: the new image is empty")
	}
	_, ok, err := Get(config, "/image")
	if err != nil {
		return nil, fmt.Errorf("set image: %w", err)
	}
	if !ok {
		return nil, fmt.Errorf("set image: %w", ErrNoImage)
	}
	return set(config, "/image", quote(image))
}
