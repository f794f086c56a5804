package journal

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// State is what a session's entries add up to. The zero value is a session without entries. Only Apply
// changes it; everything in it is the reader's to look at, not to write. It is not safe for concurrent use.
type State struct {
	Session uuid.UUID `json:"session"`
	Agent   string    `json:"agent"`
	// Ancestors are the sessions it was forked from, the oldest first.
	Ancestors []Cut `json:"ancestors,omitempty"`
	// Seq of the last entry, and the fence it was written under.
	Seq   int64 `json:"seq"`
	Fence int64 `json:"fence"`
	// Submissions that were begun or settled, in that order. At most one is open, but for those that joined it.
	Submissions []*Submission `json:"submissions,omitempty"`
	// Conversation is what a model may see, in order.
	Conversation []Item `json:"conversation,omitempty"`
	// Calls by id: all there were.
	Calls map[string]*Call `json:"calls,omitempty"`
	// Execs tells the call of an exec.
	Execs map[string]string `json:"execs,omitempty"`
	// Request is the model call that has no answer yet.
	Request *Request `json:"request,omitempty"`
	// Trouble is why the model calls since the last answer came to nothing.
	Trouble *Trouble `json:"trouble,omitempty"`
	// Answered: the open submission has an answer that asks for nothing more.
	Answered bool  `json:"answered,omitempty"`
	Usage    Usage `json:"usage"`
	// Masked counts the secrets that were masked in results, Redacted the entries that were erased.
	Masked   int64 `json:"masked,omitempty"`
	Redacted int64 `json:"redacted,omitempty"`

	// Batch is the last answer's calls and those nested in them.
	Batch []string `json:"batch,omitempty"`
}

// Cut is where a fork left a session.
type Cut struct {
	Session uuid.UUID `json:"session"`
	Seq     int64     `json:"seq"`
}

// Submission is one input to the session, from its beginning to its end.
type Submission struct {
	ID      uuid.UUID `json:"id"`
	Ordinal int64     `json:"ordinal"`
	// Joins is the one whose turn its input became a part of; they end together.
	Joins uuid.UUID `json:"joins,omitzero"`
	// InputSeq is 0 for one that was settled before it was begun.
	InputSeq int64 `json:"input_seq"`
	// Attempt of the last turn_started; 0 before the first.
	Attempt int32 `json:"attempt"`
	// Outcome is unspecified while it is open.
	Outcome journalv1.SettledOutcome `json:"outcome"`
	Error   string                   `json:"error,omitempty"`
	// Unknown calls may have had their effect.
	Unknown    []string `json:"unknown,omitempty"`
	SettledSeq int64    `json:"settled_seq,omitempty"`
	Usage      Usage    `json:"usage"`
}

// Open reports whether it is not settled.
func (s *Submission) Open() bool {
	return s.Outcome == journalv1.SettledOutcome_SETTLED_OUTCOME_UNSPECIFIED
}

// Usage counts tokens.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

func (u *Usage) add(more *journalv1.Usage) {
	u.Input += more.GetInput()
	u.Output += more.GetOutput()
	u.CacheRead += more.GetCacheRead()
	u.CacheWrite += more.GetCacheWrite()
}

// Proto is the usage as an entry holds it.
func (u Usage) Proto() *journalv1.Usage {
	return &journalv1.Usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}
}

// Item is one piece of the conversation: exactly one of its three is set.
type Item struct {
	Seq    int64   `json:"seq"`
	Input  *Input  `json:"input,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
	// Summary stands for what came before it.
	Summary *Summary `json:"summary,omitempty"`
}

// Input is a person's words and files.
type Input struct {
	Submission uuid.UUID `json:"submission"`
	Parts      []Part    `json:"parts,omitempty"`
	Redacted   bool      `json:"redacted,omitempty"`
}

// Part is text, or a file when Attachment is set.
type Part struct {
	Text       string      `json:"text,omitempty"`
	Attachment *Attachment `json:"attachment,omitempty"`
}

// Attachment is a file whose bytes are a blob.
type Attachment struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	SHA256    []byte `json:"sha256"`
	Size      int64  `json:"size"`
	Path      string `json:"path,omitempty"`
}

// Answer is a model's.
type Answer struct {
	Provider   string  `json:"provider"`
	Model      string  `json:"model"`
	Blocks     []Block `json:"blocks,omitempty"`
	StopReason string  `json:"stop_reason,omitempty"`
	ResponseID string  `json:"response_id,omitempty"`
	// Calls are the ids of its calls, in the order of its blocks.
	Calls    []string `json:"calls,omitempty"`
	Redacted bool     `json:"redacted,omitempty"`
}

// Block is a piece of an answer in its provider's bytes.
type Block struct {
	Kind journalv1.BlockKind `json:"kind"`
	Raw  []byte              `json:"raw"`
}

// Asked is how many calls the answer asks for.
func (a *Answer) Asked() int {
	asked := 0
	for _, block := range a.Blocks {
		if block.Kind == journalv1.BlockKind_BLOCK_KIND_TOOL_CALL {
			asked++
		}
	}
	return asked
}

// Torn says that entries of its calls are missing. They are in one batch with the answer, so only a cut
// through the batch looks so, and nothing of the answer was acted on.
func (a *Answer) Torn() bool { return !a.Redacted && len(a.Calls) < a.Asked() }

// Summary is a compaction's.
type Summary struct {
	UptoSeq int64  `json:"upto_seq"`
	Text    []byte `json:"text"`
}

// Request is a model call in flight.
type Request struct {
	Seq      int64  `json:"seq"`
	Fence    int64  `json:"fence"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
	SHA256   []byte `json:"sha256"`
	Attempt  int32  `json:"attempt"`
	// Partial is how many bytes of the answer viewers were shown.
	Partial int64 `json:"partial,omitempty"`
}

// Reasons of model_aborted that are not the provider's.
const (
	// AbortedOwnerDied: a new owner found the request without its answer.
	AbortedOwnerDied = "owner_died"
	// AbortedReleased: the owner gave the session back in good order.
	AbortedReleased = "released"
	// AbortedCancelled: the submission ends.
	AbortedCancelled = "cancelled"
	// AbortedTorn: the answer's batch is not whole.
	AbortedTorn = "torn"
)

// Trouble is the last model_aborted since an answer.
type Trouble struct {
	Reason    string `json:"reason"`
	Message   string `json:"message,omitempty"`
	Retryable bool   `json:"retryable"`
	// Fence it was written under: with a higher one, the session has been released and claimed since.
	Fence int64 `json:"fence"`
	// Failures is how often the provider failed since the last answer, deaths of owners not counted;
	// Refusals is how many of those were final for the request as it was.
	Failures int `json:"failures"`
	Refusals int `json:"refusals"`
}

// Ours reports that the call came to nothing by us, not by the provider: it is asked again, and counts as no failure.
func (t *Trouble) Ours() bool {
	switch t.Reason {
	case AbortedOwnerDied, AbortedReleased, AbortedTorn:
		return true
	}
	return false
}

// Open is the submission that is being worked on, nil when there is none.
func (s *State) Open() *Submission {
	for i := len(s.Submissions) - 1; i >= 0; i-- {
		if s.Submissions[i].Open() && s.Submissions[i].Joins == uuid.Nil {
			return s.Submissions[i]
		}
	}
	return nil
}

// Pending are the calls that have no result: those of the last answer in its order, then nested ones in
// theirs.
func (s *State) Pending() []*Call {
	var pending []*Call
	for _, id := range s.Batch {
		if call := s.Calls[id]; !call.Settled() {
			pending = append(pending, call)
		}
	}
	return pending
}

// FreshCallIDs are ids for the calls of an answer that a provider named so: those names, unless the session has
// had them. Some servers count from call_0 in every answer, some name nothing.
func (s *State) FreshCallIDs(names ...string) []string {
	taken := make(map[string]bool, len(names))
	ids := make([]string, 0, len(names))
	for _, name := range names {
		id := name
		if name == "" {
			name = "call"
		}
		for n := 2; id == "" || taken[id] || s.Calls[id] != nil; n++ {
			id = fmt.Sprintf("%s_%d", name, n)
		}
		taken[id] = true
		ids = append(ids, id)
	}
	return ids
}

// Phase is what the open submission is at.
type Phase int

// The phases.
const (
	// PhaseIdle: no submission is open.
	PhaseIdle Phase = iota
	// PhaseAccepted: no attempt has begun.
	PhaseAccepted
	// PhaseNeedModel: the model is to be asked.
	PhaseNeedModel
	// PhaseModelInFlight: it was asked.
	PhaseModelInFlight
	// PhaseTorn: its answer is not whole (Answer.Torn).
	PhaseTorn
	// PhaseToolsPending: calls have no result yet.
	PhaseToolsPending
	// PhaseSettling: the answer asks for nothing more.
	PhaseSettling
)

// String is the phase's name.
func (p Phase) String() string {
	return [...]string{"idle", "accepted", "need model", "model in flight", "torn", "tools pending", "settling"}[p]
}

// Phase computes the phase.
func (s *State) Phase() Phase {
	switch open := s.Open(); {
	case open == nil:
		return PhaseIdle
	case open.Attempt == 0:
		return PhaseAccepted
	case s.Request != nil:
		return PhaseModelInFlight
	case s.torn():
		return PhaseTorn
	case len(s.Pending()) > 0:
		return PhaseToolsPending
	case s.Answered:
		return PhaseSettling
	}
	return PhaseNeedModel
}

func (s *State) torn() bool {
	if n := len(s.Conversation); n > 0 && s.Conversation[n-1].Answer != nil {
		return s.Conversation[n-1].Answer.Torn()
	}
	return false
}
