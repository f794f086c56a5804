package skew_test

import (
	"os"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// schema is the wire's messages and calls as one peer knows them.
type schema struct {
	file    protoreflect.FileDescriptor
	service protoreflect.ServiceDescriptor
}

const wireFile = "flyfleet/wire/v1/wire.proto"

func descriptors(t *testing.T) *descriptorpb.FileDescriptorSet {
	t.Helper()
	b, err := os.ReadFile("../testdata/frozen-v1.binpb")
	if err != nil {
		t.Fatal(err)
	}
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(b, set); err != nil {
		t.Fatal(err)
	}
	return set
}

func build(t *testing.T, set *descriptorpb.FileDescriptorSet) *schema {
	t.Helper()
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	file, err := files.FindFileByPath(wireFile)
	if err != nil {
		t.Fatal(err)
	}
	return &schema{file: file, service: file.Services().ByName("ControlService")}
}

// frozen is version 1 as it was first agreed.
func frozen(t *testing.T) *schema { return build(t, descriptors(t)) }

// Numbers of what the future adds.
const (
	newField = 901
	newEvent = 902
	newValue = 99
)

// future is a later version: every message has one more field, Event one more kind, the service one more
// call. Enums are open, so that new values need no new schema.
func future(t *testing.T) *schema {
	set := descriptors(t)
	for _, f := range set.GetFile() {
		if f.GetName() != wireFile {
			continue
		}
		for _, m := range f.GetMessageType() {
			if m.GetName() == "Event" {
				m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
					Name: proto.String("hologram"), Number: proto.Int32(newEvent), JsonName: proto.String("hologram"),
					Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), TypeName: proto.String(".flyfleet.wire.v1.Rusage"),
					Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), OneofIndex: proto.Int32(0),
				})
			}
			m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
				Name: proto.String("novelty"), Number: proto.Int32(newField), JsonName: proto.String("novelty"),
				Type:  descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
				Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			})
		}
		service := f.GetService()[0]
		service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String("Teleport"), InputType: proto.String(".flyfleet.wire.v1.HelloRequest"),
			OutputType: proto.String(".flyfleet.wire.v1.HelloResponse"),
		})
	}
	return build(t, set)
}

type fields map[string]any

// message makes a message; values are of the fields' own Go types, enums are protoreflect.EnumNumber.
func (s *schema) message(name string, values fields) *dynamicpb.Message {
	m := dynamicpb.NewMessage(s.file.Messages().ByName(protoreflect.Name(name)))
	for field, value := range values {
		d := m.Descriptor().Fields().ByName(protoreflect.Name(field))
		switch v := value.(type) {
		case [][]byte:
			for _, item := range v {
				m.Mutable(d).List().Append(protoreflect.ValueOfBytes(item))
			}
		case []string:
			for _, item := range v {
				m.Mutable(d).List().Append(protoreflect.ValueOfString(item))
			}
		default:
			m.Set(d, protoreflect.ValueOf(value))
		}
	}
	return m
}

// event makes an Event of one kind.
func (s *schema) event(kind, message string, values fields) *dynamicpb.Message {
	return s.message("Event", fields{kind: s.message(message, values).ProtoReflect()})
}

// get reads a field, through messages along the path.
func get(m protoreflect.Message, path ...string) protoreflect.Value {
	for _, name := range path[:len(path)-1] {
		m = m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(name))).Message()
	}
	return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(path[len(path)-1])))
}

func has(m protoreflect.Message, name string) bool {
	return m.Has(m.Descriptor().Fields().ByName(protoreflect.Name(name)))
}

// adorn sets the future's field in a message and all below it, but for a spec's: what a spec asks for is
// part of its digest.
func (s *schema) adorn(m protoreflect.Message) {
	d := m.Descriptor()
	if d.Name() == "ExecSpec" || d.ParentFile() != s.file {
		return
	}
	if f := d.Fields().ByName("novelty"); f != nil {
		m.Set(f, protoreflect.ValueOfString("from a later version"))
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				s.adorn(v.List().Get(i).Message())
			}
		default:
			s.adorn(v.Message())
		}
		return true
	})
}

// retold is a message of today's as a frozen peer reads it.
func retold(t *testing.T, m proto.Message) protoreflect.Message {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	as := dynamicpb.NewMessage(frozen(t).file.Messages().ByName(m.ProtoReflect().Descriptor().Name()))
	if err := proto.Unmarshal(b, as); err != nil {
		t.Fatal(err)
	}
	return as.ProtoReflect()
}
