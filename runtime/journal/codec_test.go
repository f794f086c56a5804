package journal_test

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

func result(call string, content []byte) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_ToolResult{ToolResult: &journalv1.ToolResult{
		CallId: call, Outcome: journalv1.ToolOutcome_TOOL_OUTCOME_OK, Content: content,
	}}}
}

// THU-MAIC/OpenMAIC#1493, Autumn-27/ARTEX#112: NUL and half a surrogate must not fail the turn.
func TestAnyBytesComeBackAsTheyWere(t *testing.T) {
	content := []byte("a\x00b\xed\xa0\x80c\xff")
	kind, data, err := journal.Marshal(result("c1", content))
	if err != nil || kind != journal.KindToolResult {
		t.Fatalf("Marshal: kind %s, %v", kind, err)
	}
	body, err := journal.Unmarshal(kind, data)
	if err != nil {
		t.Fatal(err)
	}
	if got := body.GetToolResult().GetContent(); !bytes.Equal(got, content) {
		t.Errorf("content came back as %q", got)
	}
	if _, again, _ := journal.Marshal(body); !bytes.Equal(again, data) {
		t.Error("the same body gave other bytes")
	}
}

func TestKindIsTheFieldsNumber(t *testing.T) {
	fields := (*journalv1.Body)(nil).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		body := new(journalv1.Body)
		body.ProtoReflect().Set(field, body.ProtoReflect().NewField(field))
		if kind := journal.KindOf(body); kind != journal.Kind(field.Number()) || kind.String() != string(field.Name()) {
			t.Errorf("field %s has kind %d %q", field.Name(), kind, kind)
		}
	}
}

func TestWhatANewerBuildWroteIsRefused(t *testing.T) {
	newKind := protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), nil)
	_, known, _ := journal.Marshal(result("c1", nil))
	newEnum := proto.Clone(result("c1", nil)).(*journalv1.Body)
	newEnum.GetToolResult().Outcome = 77
	newEnumBytes, _ := proto.Marshal(newEnum)
	newPart, _ := proto.Marshal(&journalv1.Body{Body: &journalv1.Body_InputAccepted{InputAccepted: &journalv1.InputAccepted{Parts: []*journalv1.Part{{}}}}})
	cases := map[string]struct {
		kind journal.Kind
		data []byte
	}{
		"a kind by its column":                 {99, newKind},
		"a kind that the column does not tell": {journal.KindToolResult, newKind},
		"a value of an enum":                   {journal.KindToolResult, newEnumBytes},
		"an alternative within a body":         {journal.KindInputAccepted, newPart},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := journal.Unmarshal(c.kind, c.data)
			if unknown := new(journal.UnknownError); !errors.As(err, &unknown) {
				t.Errorf("error is %v", err)
			}
		})
	}
	t.Run("a field is not", func(t *testing.T) {
		body := result("c1", nil)
		body.GetToolResult().ProtoReflect().SetUnknown(protoreflect.RawFields(protowire.AppendVarint(protowire.AppendTag(nil, 90, protowire.VarintType), 1)))
		kind, data, err := journal.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := journal.Unmarshal(kind, data); err != nil {
			t.Error(err)
		}
	})
	for name, c := range map[string]struct {
		kind journal.Kind
		data []byte
	}{
		"another kind than the column's": {journal.KindToolStarted, known},
		"no protobuf":                    {journal.KindToolResult, []byte{0xff}},
		"nothing":                        {journal.KindToolResult, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := journal.Unmarshal(c.kind, c.data)
			if corrupt := new(journal.CorruptError); !errors.As(err, &corrupt) {
				t.Errorf("error is %v", err)
			}
		})
	}
}
