package store

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

const (
	// maxResultWords is how much of a tool's result is searched: its head says what it is.
	maxResultWords = 8 << 10
	// maxWords keeps an entry below what a tsvector can hold, 1 MiB.
	maxWords = 256 << 10
)

// wordsOf is what people look for in an entry: inputs, answers, tools and their arguments, the head of results. A model's
// thinking is not. What cannot be read has no words: the index never stops at it.
func wordsOf(kind journal.Kind, data []byte) string {
	body, err := journal.Unmarshal(kind, data)
	if err != nil {
		return ""
	}
	var words []string
	switch b := body.GetBody().(type) {
	case *journalv1.Body_InputAccepted:
		for _, part := range b.InputAccepted.GetParts() {
			words = append(words, part.GetText(), part.GetAttachment().GetName())
		}
	case *journalv1.Body_ModelCompleted:
		for _, block := range b.ModelCompleted.GetBlocks() {
			words = append(words, blockWords(block))
		}
	case *journalv1.Body_ToolCalled:
		words = append(words, b.ToolCalled.GetTool())
	case *journalv1.Body_ToolResult:
		content := b.ToolResult.GetContent()
		words = append(words, string(content[:min(len(content), maxResultWords)]))
	case *journalv1.Body_Compaction:
		words = append(words, string(b.Compaction.GetSummary()))
	case *journalv1.Body_SubmissionSettled:
		words = append(words, b.SubmissionSettled.GetError())
	}
	return searchable(strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), "\n"))
}

// blockWords are the texts in a provider's block, whatever its layout.
func blockWords(block *journalv1.Block) string {
	switch block.GetKind() {
	case journalv1.BlockKind_BLOCK_KIND_TEXT, journalv1.BlockKind_BLOCK_KIND_TOOL_CALL:
	default:
		return ""
	}
	decoder := json.NewDecoder(bytes.NewReader(block.GetRaw()))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return string(block.GetRaw())
	}
	return strings.Join(texts(value, nil), "\n")
}

// texts are the strings in a JSON value, by sorted keys; names of blocks' types and ids tell nobody anything.
func texts(value any, found []string) []string {
	switch v := value.(type) {
	case string:
		found = append(found, v)
	case json.Number:
		found = append(found, v.String())
	case []any:
		for _, item := range v {
			found = texts(item, found)
		}
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			if key != "type" && key != "id" && key != "call_id" && key != "signature" {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			found = texts(v[key], found)
		}
	}
	return found
}

// searchable is text as Postgres takes it: UTF-8 without NUL, bounded.
func searchable(text string) string {
	if len(text) > maxWords {
		text = text[:maxWords]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, " "), "\x00", " ")
}
