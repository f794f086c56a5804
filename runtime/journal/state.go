package journal

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// State is what a session's entries add up to. The zero value is a session without entries. Only Apply
// changes it; everything in it is the reader's to look at, not to write. It is not safe for concurrent use.
type State struct {
	Session uuid.UUID
	Agent   string
	// Ancestors are the sessions it was forked from, the oldest first.
	Ancestors []Cut
	// Seq of the last entry, and the fence it was written under.
	Seq   int64
	Fence int64
	// Submissions that were begun or settled, in that order. At most one is open, but for those that joined it.
	Submissions []*Submission
	// Conversation is what a model may see, in order.
	Conversation []Item
	// Calls by id: all there were.
	Calls map[string]*Call
	// Execs tells the call of an exec.
	Execs map[string]string
	// Request is the model call that has no answer yet.
	Request *Request
	// Trouble is why the model calls since the last answer came to nothing.
	Trouble *Trouble
	// Answered: the open submission has an answer that asks for nothing more.
	Answered bool
	Usage    Usage
	// Masked counts the secrets that were masked in results, Redacted the entries that were erased.
	Masked   int64
	Redacted int64

	// Batch is the last answer's calls and those nested in them.
	Batch []string
}

// Cut is where a fork left a session.
type Cut struct {
	Session uuid.UUID
	Seq     int64
}

// Submission is one input to the session, from its beginning to its end.
type Submission struct {
	ID      uuid.UUID
	Ordinal int64
	// Joins is the one whose turn its input became a part of; they end together.
	Joins uuid.UUID
	// InputSeq is 0 for one that was settled before it was begun.
	InputSeq int64
	// Attempt of the last turn_started; 0 before the first.
	Attempt int32
	// Outcome is unspecified while it is open.
	Outcome journalv1.SettledOutcome
	Error   string
	// Unknown calls may have had their effect.
	Unknown    []string
	SettledSeq int64
	Usage      Usage
}

// Open reports whether it is not settled.
func (s *Submission) Open() bool {
	return s.Outcome == journalv1.SettledOutcome_SETTLED_OUTCOME_UNSPECIFIED
}

// Usage counts tokens.
type Usage struct {
	Input      int64
	Output     int64
	CacheRead  int64
	CacheWrite int64
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
	Seq    int64
	Input  *Input
	Answer *Answer
	// Summary stands for what came before it.
	Summary *Summary
}

// Input is a person's words and files.
type Input struct {
	Submission uuid.UUID
	Parts      []Part
	Redacted   bool
}

// Part is text, or a file when Attachment is set.
type Part struct {
	Text       string
	Attachment *Attachment
}

// Attachment is a file whose bytes are a blob.
type Attachment struct {
	Name      string
	MediaType string
	SHA256    []byte
	Size      int64
	Path      string
}

// Answer is a model's.
type Answer struct {
	Provider   string
	Model      string
	Blocks     []Block
	StopReason string
	ResponseID string
	// Calls are the ids of its calls, in the order of its blocks.
	Calls    []string
	Redacted bool
}

// Block is a piece of an answer in its provider's bytes.
type Block struct {
	Kind journalv1.BlockKind
	Raw  []byte
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
	UptoSeq int64
	Text    []byte
}

// Request is a model call in flight.
type Request struct {
	Seq      int64
	Fence    int64
	Provider string
	Model    string
	SHA256   []byte
	Attempt  int32
	// Partial is how many bytes of the answer viewers were shown.
	Partial int64
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
	Reason    string
	Message   string
	Retryable bool
	// Fence it was written under: with a higher one, the session has been released and claimed since.
	Fence int64
	// Failures is how often the provider failed since the last answer, deaths of owners not counted;
	// Refusals is how many of those were final for the request as it was.
	Failures int
	Refusals int
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
