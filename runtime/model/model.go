// Package model is the seam between a turn and the model that answers it: a neutral request, an answer
// whose blocks keep the provider's own bytes, and errors that say what may be tried again. Packages
// anthropic and openai speak to providers, scripted answers from a file.
//
// # Bytes
//
// A block of an answer is kept as the provider sent it (Block.Raw) and goes back to the same provider in
// the same bytes: a signed thinking block with one byte changed is refused (anthropics/claude-code#63147),
// and a tool call that was decoded and encoded again loses NULs, half surrogates and the order of keys.
// To another provider the neutral fields are sent instead, and thinking is omitted, never altered
// (openclaw/openclaw#120596). Decode gives the neutral fields of a kept block.
//
// # Retry
//
// A Model sends a request once. Whether it is sent again is decided by Backoff and written in the journal
// by whoever calls.
package model

import (
	"context"
	"encoding/json"
)

// Model answers requests. Its methods may be called from many goroutines.
type Model interface {
	// Provider tags the blocks of its answers, for ever: "anthropic", "openai", "scripted", or one of
	// these, a colon and the name of a server that speaks the same format ("openai:local").
	Provider() string
	// Ask sends the request once and reads the answer as it comes. onDelta, which may be nil, is called
	// from the caller's goroutine, in order; an error from it ends the call and is returned. The end
	// of ctx ends the call with an error that wraps context.Cause. Every other failure is an *Error.
	// Nothing of an answer counts unless Ask returns nil.
	Ask(ctx context.Context, req Request, onDelta func(Delta) error) (Answer, error)
}

// Request is all that a model is asked.
type Request struct {
	// Model is the provider's name for the model.
	Model  string
	System string
	// Messages are in order. Every tool call in them has its one result in the message after it.
	Messages []Message
	Tools    []ToolDef
	// MaxTokens bounds the answer; 0 is the provider's bound, or the client's where it must send one.
	MaxTokens int64
	// Options are members of the provider's own request, a JSON object ({"temperature":0}), sent
	// as they are. Members that the client writes itself are refused.
	Options json.RawMessage
	// Attempt is which try of this request it is, from 1. Providers are not told.
	Attempt int
}

// Role is whose words a message holds.
type Role string

// The two roles. Tool results are the user's.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Message is one side's words.
type Message struct {
	Role Role
	// Provider and Model are whose answer it is: Answer.Provider and Answer.Model. Raw bytes go back
	// to that provider only, and thinking only to that model. Empty for a user's message.
	Provider string
	Model    string
	Blocks   []Block
}

// ToolDef is a tool as the model sees it.
type ToolDef struct {
	Name        string
	Description string
	// Schema is a JSON schema of an object, sent byte for byte.
	Schema json.RawMessage
}

// Answer is what a model answered, whole.
type Answer struct {
	// Blocks all have Raw.
	Blocks     []Block
	StopReason StopReason
	Usage      Usage
	// ResponseID is the provider's name for the answer; support asks for it.
	ResponseID string
	Provider   string
	// Model is Request.Model. Providers answer an alias with a dated name, which would make the model
	// look foreign to its own thinking.
	Model string
}

// StopReason is why an answer ended. One that is not named here is the provider's own word.
type StopReason string

// Reasons that all providers share.
const (
	// StopEnd: the model has said all.
	StopEnd StopReason = "end"
	// StopTools: it waits for the results of its calls.
	StopTools StopReason = "tools"
	// StopLength: a bound was met; the last block may be cut.
	StopLength StopReason = "length"
	// StopRefused: the provider's policy ended it.
	StopRefused StopReason = "refused"
	// StopPaused: ask again with the answer as the last message, and it goes on.
	StopPaused StopReason = "paused"
)

// Usage counts tokens. Input leaves out those that CacheRead and CacheWrite count.
type Usage struct {
	Input      int64
	Output     int64
	CacheRead  int64
	CacheWrite int64
}

// Delta is a piece of an answer for people who watch. It is never sent back to a model.
type Delta struct {
	// Block is the index of the block, in the order of the answer's blocks, as far as known.
	Block int
	// Kind is KindText, KindThinking or KindToolCall.
	Kind Kind
	// Text is whole UTF-8; of a call it is a piece of its arguments.
	Text string
	// Tool is set on the first piece of a call.
	Tool string
}
