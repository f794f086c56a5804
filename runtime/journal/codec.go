package journal

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// Marshal gives a body's kind and bytes; the same body always gives the same bytes. A body that this build
// could not read back is refused.
func Marshal(body *journalv1.Body) (Kind, []byte, error) {
	field := chosen(body)
	if field == nil {
		return 0, nil, check(0, body)
	}
	kind := Kind(field.Number())
	if err := knownField(kind, body.ProtoReflect(), field); err != nil {
		return 0, nil, err
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(body)
	if err != nil {
		// Such as text that is not UTF-8: proto strings must be.
		return 0, nil, &CorruptError{Kind: kind, Reason: err.Error(), Err: err}
	}
	return kind, data, nil
}

// Unmarshal reads a body. The error is an *UnknownError when a newer build wrote it, and a *CorruptError
// when the bytes are no body, or one of another kind than the column says.
func Unmarshal(kind Kind, data []byte) (*journalv1.Body, error) {
	if !kind.Known() {
		return nil, &UnknownError{Kind: kind, What: "that kind"}
	}
	body := new(journalv1.Body)
	if err := proto.Unmarshal(data, body); err != nil {
		return nil, &CorruptError{Kind: kind, Reason: "not a protobuf message", Err: err}
	}
	if err := check(kind, body); err != nil {
		return nil, err
	}
	return body, nil
}

func check(kind Kind, body *journalv1.Body) error {
	switch found := KindOf(body); {
	case found == 0 && len(body.ProtoReflect().GetUnknown()) > 0:
		return &UnknownError{Kind: kind, What: "another kind"}
	case found == 0:
		return &CorruptError{Kind: kind, Reason: "the body is empty"}
	case found != kind:
		return &CorruptError{Kind: kind, Reason: fmt.Sprintf("the body is a %s", found)}
	}
	return known(kind, body.ProtoReflect())
}

// known looks for alternatives and enum values that this build has no name for, and for enums left unset.
// Unknown plain fields are fine: the rules of the proto let a reader do without them.
func known(kind Kind, message protoreflect.Message) error {
	oneofs := message.Descriptor().Oneofs()
	for i := range oneofs.Len() {
		chosen := message.WhichOneof(oneofs.Get(i))
		if chosen == nil {
			return &UnknownError{Kind: kind, What: fmt.Sprintf("no known alternative of %s", oneofs.Get(i).FullName())}
		}
		if err := knownField(kind, message, chosen); err != nil {
			return err
		}
	}
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		if fields.Get(i).ContainingOneof() != nil {
			continue
		}
		if err := knownField(kind, message, fields.Get(i)); err != nil {
			return err
		}
	}
	return nil
}

func knownField(kind Kind, message protoreflect.Message, field protoreflect.FieldDescriptor) error {
	switch {
	case field.Kind() == protoreflect.EnumKind:
		// Every enum of the journal has an "unspecified" 0 that no writer may use.
		number := message.Get(field).Enum()
		if number == 0 || field.Enum().Values().ByNumber(number) == nil {
			return &UnknownError{Kind: kind, What: fmt.Sprintf("%s %d", field.FullName(), number)}
		}
	case field.Kind() != protoreflect.MessageKind || !message.Has(field):
	case field.IsList():
		list := message.Get(field).List()
		for i := range list.Len() {
			if err := known(kind, list.Get(i).Message()); err != nil {
				return err
			}
		}
	default:
		return known(kind, message.Get(field).Message())
	}
	return nil
}
