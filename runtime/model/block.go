package model

import "encoding/json"

// Kind says which fields of a Block count.
type Kind int

// Kinds of blocks. The first four are those of journal entries.
const (
	// KindText: Text.
	KindText Kind = iota + 1
	// KindThinking: Raw, and Text where it can be read. Never shown to another provider or model.
	KindThinking
	// KindToolCall: CallID, Tool, Args.
	KindToolCall
	// KindOther: Raw, kept and sent back, not understood.
	KindOther
	// KindToolResult: CallID, Content, IsError.
	KindToolResult
	// KindImage: MediaType, Data.
	KindImage
)

// Block is a piece of a message.
type Block struct {
	Kind Kind
	// Raw is the block in its provider's bytes; nil for one that did not come from a model. With Raw
	// the neutral fields are a reading of it (Decode).
	Raw []byte

	Text string

	// CallID joins a call and its result. It is unique in a request.
	CallID string
	Tool   string
	// Args is always a JSON object. Arguments that were not one are {"INVALID_JSON": "<text>"}.
	Args json.RawMessage

	// Content is text and images. Text that is not UTF-8 is sent with U+FFFD in its place.
	Content []Block
	// IsError tells the model that the call failed.
	IsError bool

	// MediaType is image/png, image/jpeg, image/gif or image/webp.
	MediaType string
	// Data is the image's bytes.
	Data []byte
}

// Text is a text block.
func Text(text string) Block { return Block{Kind: KindText, Text: text} }

// Image is an image block.
func Image(mediaType string, data []byte) Block {
	return Block{Kind: KindImage, MediaType: mediaType, Data: data}
}

// Result is the result of a call.
func Result(callID string, isError bool, content ...Block) Block {
	return Block{Kind: KindToolResult, CallID: callID, IsError: isError, Content: content}
}

// User is a user's message.
func User(blocks ...Block) Message { return Message{Role: RoleUser, Blocks: blocks} }

// Message is the answer as a message of the next request.
func (a Answer) Message() Message {
	return Message{Role: RoleAssistant, Provider: a.Provider, Model: a.Model, Blocks: a.Blocks}
}
