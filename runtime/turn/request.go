package turn

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
)

// Agent is who answers in a session.
type Agent struct {
	// Provider and Model that are asked; model.Model.Provider and model.Request.Model.
	Provider string
	Model    string
	System   string
	Tools    []model.ToolDef
	// MaxTokens and Options as in model.Request.
	MaxTokens int64
	Options   json.RawMessage
	// Blob gives an attachment's bytes by its digest, nil when they are gone. A nil Blob has none.
	Blob func(sha256 []byte) []byte
}

// ErrNotAsking says that the state is not one in which a model may be asked: a call has no result, or the
// model was not spoken to.
var ErrNotAsking = errors.New("the model cannot be asked now")

// Request is what the model is asked in this state: the same for the same state and agent. Blocks of the
// agent's own model go back in its bytes; thinking of any other model is left out, never altered, and so is what
// an aborted answer had said. plain asks for the least that says the same: no thinking, no blocks that are not
// understood.
func Request(s *journal.State, agent Agent, plain bool) (model.Request, error) {
	if pending := s.Pending(); len(pending) > 0 {
		return model.Request{}, fmt.Errorf("%w: call %s has no result", ErrNotAsking, pending[0].ID)
	}
	b := builder{state: s, agent: agent, plain: plain}
	for _, item := range s.Conversation {
		switch {
		case item.Input != nil:
			b.user(b.input(item.Input)...)
		case item.Summary != nil:
			b.user(model.Text("Summary of the conversation so far:\n\n" + string(item.Summary.Text)))
		case item.Answer != nil && !item.Answer.Torn():
			b.answer(item.Answer)
		}
	}
	if len(b.messages) == 0 {
		return model.Request{}, fmt.Errorf("%w: nobody has said anything", ErrNotAsking)
	}
	request := model.Request{
		Model: agent.Model, System: agent.System, Messages: b.messages, Tools: agent.Tools,
		MaxTokens: agent.MaxTokens, Options: agent.Options,
	}
	return request, nil
}

// Digests are what model_requested keeps of a request: its own, and its tools'.
func Digests(request model.Request) (requestSHA256, toolsSHA256 []byte, err error) {
	// Which try it is does not make it another request.
	request.Attempt = 0
	if requestSHA256, err = digest(request); err != nil {
		return nil, nil, err
	}
	toolsSHA256, err = digest(request.Tools)
	return requestSHA256, toolsSHA256, err
}

func digest(value any) ([]byte, error) {
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(value); err != nil {
		return nil, fmt.Errorf("digest of a model request: %w", err)
	}
	return hash.Sum(nil), nil
}

type builder struct {
	state    *journal.State
	agent    Agent
	plain    bool
	messages []model.Message
}

// user adds to the user's side: roles alternate.
func (b *builder) user(blocks ...model.Block) {
	if n := len(b.messages); n > 0 && b.messages[n-1].Role == model.RoleUser {
		b.messages[n-1].Blocks = append(b.messages[n-1].Blocks, blocks...)
		return
	}
	b.messages = append(b.messages, model.User(blocks...))
}

func (b *builder) answer(answer *journal.Answer) {
	if answer.Redacted {
		b.assistant(model.Message{Role: model.RoleAssistant, Blocks: []model.Block{model.Text(journal.RedactedContent)}})
		return
	}
	message := model.Message{Role: model.RoleAssistant, Provider: answer.Provider, Model: answer.Model}
	var results []model.Block
	asked := 0
	for _, kept := range answer.Blocks {
		block, keep := b.block(answer, kept)
		if kept.Kind == journalv1.BlockKind_BLOCK_KIND_TOOL_CALL {
			call := b.state.Calls[answer.Calls[asked]]
			asked++
			block = named(block, call)
			results = append(results, b.result(call))
		}
		if keep {
			message.Blocks = append(message.Blocks, block)
		}
	}
	message.Blocks = withoutLastThinking(message.Blocks)
	if len(message.Blocks) == 0 {
		return
	}
	b.assistant(message)
	if len(results) > 0 {
		b.user(results...)
	}
}

// assistant adds an answer. One that goes on where the same model paused is the same message.
func (b *builder) assistant(message model.Message) {
	n := len(b.messages)
	if n == 0 || b.messages[n-1].Role == model.RoleUser {
		if n == 0 {
			b.user(model.Text("(the beginning is not kept)"))
		}
		b.messages = append(b.messages, message)
		return
	}
	before := &b.messages[n-1]
	if before.Provider == message.Provider && before.Model == message.Model {
		before.Blocks = append(before.Blocks, message.Blocks...)
		return
	}
	b.user(model.Text("(continue)"))
	b.messages = append(b.messages, message)
}

// block reads a kept block, and reports whether it may be sent.
func (b *builder) block(answer *journal.Answer, kept journal.Block) (model.Block, bool) {
	sameProvider := answer.Provider == b.agent.Provider
	block, err := model.Decode(answer.Provider, kept.Raw)
	if err != nil {
		// Nothing of it can be said to another provider; its own may know.
		block = model.Block{Kind: model.KindOther, Raw: kept.Raw}
	}
	switch kept.Kind {
	case journalv1.BlockKind_BLOCK_KIND_TOOL_CALL:
		block.Kind = model.KindToolCall
		return block, true
	case journalv1.BlockKind_BLOCK_KIND_TEXT:
		return block, strings.TrimSpace(block.Text) != ""
	case journalv1.BlockKind_BLOCK_KIND_THINKING:
		block.Kind = model.KindThinking
		return block, sameProvider && answer.Model == b.agent.Model && !b.plain
	}
	block.Kind = model.KindOther
	return block, sameProvider && !b.plain
}

// named joins a call's block to its result. A server that gives one id to two calls is not sent its own bytes of
// the second: the id in them would be the first's.
func named(block model.Block, call *journal.Call) model.Block {
	if block.CallID != call.ID {
		block.CallID, block.Raw = call.ID, nil
	}
	if block.Tool == "" {
		block.Tool = call.Tool
	}
	if len(block.Args) == 0 {
		block.Args = json.RawMessage("{}")
	}
	return block
}

// withoutLastThinking: an answer that was cut while the model thought has nothing to say, and Anthropic refuses a
// message that ends in thinking.
func withoutLastThinking(blocks []model.Block) []model.Block {
	for len(blocks) > 0 && blocks[len(blocks)-1].Kind == model.KindThinking {
		blocks = blocks[:len(blocks)-1]
	}
	return blocks
}

func (b *builder) result(call *journal.Call) model.Block {
	content := call.Result.Content
	if edited := call.EditedArgs(); edited != nil {
		// What ran is not what the model asked for.
		content = append([]byte("(A person changed the arguments to "+string(edited)+")\n"), content...)
	}
	failed := call.Result.Outcome != journalv1.ToolOutcome_TOOL_OUTCOME_OK
	block := model.Result(call.ID, failed, text(content, "(no output)"))
	for _, attachment := range call.Result.Attachments {
		block.Content = append(block.Content, b.attachment(attachment))
	}
	return block
}

func (b *builder) input(input *journal.Input) []model.Block {
	if input.Redacted {
		return []model.Block{model.Text(journal.RedactedContent)}
	}
	var blocks []model.Block
	for _, part := range input.Parts {
		switch {
		case part.Attachment != nil:
			blocks = append(blocks, b.attachment(*part.Attachment))
		case strings.TrimSpace(part.Text) != "":
			blocks = append(blocks, model.Text(part.Text))
		}
	}
	if len(blocks) == 0 {
		blocks = []model.Block{model.Text("(an empty message)")}
	}
	return blocks
}

// attachment is the image itself, or a word about a file that is in the sandbox.
func (b *builder) attachment(a journal.Attachment) model.Block {
	switch a.MediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		if b.agent.Blob == nil {
			break
		}
		if data := b.agent.Blob(a.SHA256); len(data) > 0 {
			return model.Image(a.MediaType, data)
		}
	}
	where := "not in the workspace"
	if a.Path != "" {
		where = "in the workspace at " + a.Path
	}
	return model.Text(fmt.Sprintf("(attached file %q, %s, %d bytes, %s)", a.Name, a.MediaType, a.Size, where))
}

// text is never empty: providers refuse an empty text.
func text(content []byte, empty string) model.Block {
	if len(bytes.TrimSpace(content)) == 0 {
		return model.Text(empty)
	}
	return model.Text(string(content))
}
