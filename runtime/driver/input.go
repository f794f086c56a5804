package driver

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// EncodeInput makes the payload of a submission (store.Input) of an input's parts. The same parts give the same bytes.
func EncodeInput(parts ...*journalv1.Part) ([]byte, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&journalv1.InputAccepted{Parts: parts})
	if err != nil {
		return nil, fmt.Errorf("encode an input: %w", err)
	}
	return data, nil
}

// DecodeInput reads a payload.
func DecodeInput(payload []byte) ([]*journalv1.Part, error) {
	input := new(journalv1.InputAccepted)
	if err := proto.Unmarshal(payload, input); err != nil {
		return nil, fmt.Errorf("decode an input: %w", err)
	}
	return input.GetParts(), nil
}

// Text is a part of an input.
func Text(text string) *journalv1.Part {
	return &journalv1.Part{Part: &journalv1.Part_Text{Text: text}}
}
