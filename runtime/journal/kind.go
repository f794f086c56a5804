package journal

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// Kind is what an entry is: the number of its field in journalv1.Body. The store has it as a column.
type Kind int16

// The kinds.
const (
	KindSessionCreated    Kind = 1
	KindSessionForked     Kind = 2
	KindInputAccepted     Kind = 3
	KindTurnStarted       Kind = 4
	KindModelRequested    Kind = 5
	KindModelDelta        Kind = 6
	KindModelCompleted    Kind = 7
	KindModelAborted      Kind = 8
	KindToolCalled        Kind = 9
	KindApprovalRequested Kind = 10
	KindApprovalDecided   Kind = 11
	KindToolStarted       Kind = 12
	KindExecStarted       Kind = 13
	KindExecExited        Kind = 14
	KindExecLost          Kind = 15
	KindToolResult        Kind = 16
	KindCompaction        Kind = 17
	KindRedaction         Kind = 18
	KindSubmissionSettled Kind = 19
)

// String is the name in the proto, such as "tool_called".
func (k Kind) String() string {
	if field := bodyFields().ByNumber(protoreflect.FieldNumber(k)); field != nil {
		return string(field.Name())
	}
	return fmt.Sprintf("kind %d", int16(k))
}

// Known reports whether this build knows the kind.
func (k Kind) Known() bool { return bodyFields().ByNumber(protoreflect.FieldNumber(k)) != nil }

// KindOf is the kind of a body; 0 when it holds nothing that this build knows.
func KindOf(body *journalv1.Body) Kind {
	if field := chosen(body); field != nil {
		return Kind(field.Number())
	}
	return 0
}

// chosen is the alternative that a body holds; nil when it holds nothing that this build knows.
func chosen(body *journalv1.Body) protoreflect.FieldDescriptor {
	message := body.ProtoReflect()
	return message.WhichOneof(message.Descriptor().Oneofs().Get(0)) // a body is nothing but one alternative
}

func bodyFields() protoreflect.FieldDescriptors {
	return (*journalv1.Body)(nil).ProtoReflect().Descriptor().Fields()
}
