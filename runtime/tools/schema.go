package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// MaxArgs is the most bytes of arguments that a call may have.
const MaxArgs = 4 << 20

type schema struct{ compiled *jsonschema.Schema }

func compile(tool string, text json.RawMessage) (schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return schema{}, fmt.Errorf("schema of tool %s: %w", tool, err)
	}
	if object, is := document.(map[string]any); !is || object["type"] != "object" {
		return schema{}, fmt.Errorf(`schema of tool %s: it must say "type": "object"`, tool)
	}
	compiler := jsonschema.NewCompiler()
	// A schema is all there is: it may not read files or ask servers.
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	location := "tool:" + tool
	if err := compiler.AddResource(location, document); err != nil {
		return schema{}, fmt.Errorf("schema of tool %s: %w", tool, err)
	}
	compiled, err := compiler.Compile(location)
	if err != nil {
		return schema{}, fmt.Errorf("schema of tool %s: %w", tool, err)
	}
	return schema{compiled: compiled}, nil
}

// check says what is wrong with arguments, in words for the model.
func (s schema) check(args json.RawMessage) error {
	if len(args) > MaxArgs {
		return fmt.Errorf("they have %d bytes, at most %d are taken", len(args), MaxArgs)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return fmt.Errorf("they are not JSON: %w", err)
	}
	if err := s.compiled.Validate(value); err != nil {
		_, detail, _ := strings.Cut(err.Error(), "\n")
		return fmt.Errorf("%s", strings.TrimSpace(detail))
	}
	return nil
}
