package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/machinetoken"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/upstream"
)

// ProxyPath is what the commands' way back is under: ProxyPath + upstream + the path there.
const ProxyPath = "/v1/proxy/"

// ProxyOptions of the commands' way back. Without Keys there is none; zero values of the others are the defaults.
type ProxyOptions struct {
	// Keys prove the tokens of commands.
	Keys *machinetoken.Keys
	// Upstreams are what they may reach.
	Upstreams *upstream.Set
	// Rates bound what one command may ask of one replica. Streams are requests that wait for their answer. 20 a second, 50 at
	// once, 64 waiting.
	Rates Rates
	// MostOpen bounds a command's calls without an answer, Most all that it may ever make. 64, 10000.
	MostOpen, Most int
}

func (o ProxyOptions) withDefaults() ProxyOptions {
	if o.Rates.PerSecond <= 0 {
		o.Rates.PerSecond = 20
	}
	if o.Rates.Burst <= 0 {
		o.Rates.Burst = 50
	}
	if o.Rates.Streams <= 0 {
		o.Rates.Streams = 64
	}
	if o.MostOpen <= 0 {
		o.MostOpen = 64
	}
	if o.Most <= 0 {
		o.Most = 10000
	}
	return o
}

const (
	// mostLookups of tokens at a time: strangers with made-up ones cannot take the database.
	mostLookups = 8
	// maxCallName is how long an Idempotency-Key may be.
	maxCallName = 200
	// answerTime is how long a command may take to read its answer.
	answerTime = time.Minute
)

// proxy is the door for commands, and what is behind it: a request becomes a row, which the session's owner makes a call of; the
// answer is in the row, too. So any replica may be asked, and asked again.
type proxy struct {
	*Gateway
	options ProxyOptions
	limiter *limiter
	lookups *semaphore.Weighted
}

func newProxy(g *Gateway, o ProxyOptions) *proxy {
	o = o.withDefaults()
	return &proxy{Gateway: g, options: o, limiter: newLimiter(o.Rates), lookups: semaphore.NewWeighted(mostLookups)}
}

// caller is a proven command.
type caller struct {
	exec uuid.UUID
	is   store.ExecSlot
}

var notYours = &refused{code: connect.CodeUnauthenticated, message: machinetoken.ErrInvalid.Error()}

// admit proves the token, before anything else of the request is looked at.
func (p *proxy) admit(r *http.Request) (caller, *refused) {
	if err := p.lookups.Acquire(r.Context(), 1); err != nil {
		return caller{}, notYours
	}
	exec, is, err := p.options.Keys.Verify(r.Context(), p.store, bearer(r))
	p.lookups.Release(1)
	switch {
	case errors.Is(err, machinetoken.ErrInvalid):
		p.log.Warn("machine token refused", "peer", r.RemoteAddr)
		return caller{}, notYours
	case err != nil:
		p.log.Error("machine token not looked up", "error", err)
		return caller{}, &refused{code: connect.CodeUnavailable, message: "tokens cannot be looked up now", after: time.Second}
	}
	if wait, ok := p.limiter.call(exec.String(), p.door.options.Now()); !ok {
		return caller{}, &refused{code: connect.CodeResourceExhausted, message: "too many requests", after: wait}
	}
	return caller{exec: exec, is: is}, nil
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, refusal := p.admit(r)
	if refusal != nil {
		p.refuse(w, r, refusal)
		return
	}
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), ProxyPath), "/")
	to, there := p.options.Upstreams.Get(name)
	if !there {
		p.refuse(w, r, &refused{code: connect.CodeNotFound, message: "there is no such upstream"})
		return
	}
	release, ok := p.limiter.stream(who.exec.String())
	if !ok {
		p.refuse(w, r, &refused{code: connect.CodeResourceExhausted, message: "too many requests wait for their answer", after: time.Second})
		return
	}
	defer release()
	call, refusal := p.ask(w, r, who, to, "/"+rest)
	if refusal != nil {
		p.refuse(w, r, refusal)
		return
	}
	p.answer(w, r, call)
}

// ask reads the request and makes a call of it, or finds the one that it is already.
func (p *proxy) ask(w http.ResponseWriter, r *http.Request, who caller, to *upstream.Upstream, path string) (store.Callback, *refused) {
	var none store.Callback
	invalid := func(err error) (store.Callback, *refused) {
		return none, &refused{code: connect.CodeInvalidArgument, message: err.Error()}
	}
	name := r.Header.Get("Idempotency-Key")
	if len(name) > maxCallName {
		return invalid(errors.New("the Idempotency-Key is longer than " + strconv.Itoa(maxCallName) + " bytes"))
	}
	room := min(to.MaxRequest, p.most)
	if err := p.room.Acquire(r.Context(), room); err != nil {
		return none, notYours
	}
	defer p.room.Release(room)
	body, err := p.read(w, r, to.MaxRequest)
	if err != nil {
		return invalid(err)
	}
	request, err := to.Ask(r, path, body)
	if err != nil {
		return invalid(err)
	}
	args, err := request.Args()
	if err != nil {
		return invalid(err)
	}
	call, err := p.store.AskCall(r.Context(), store.Ask{
		Tenant: who.is.Tenant, Session: who.is.Session, Exec: who.exec, Name: name,
		Tool: upstream.ToolName(to.Name), Args: args, Body: body, MostOpen: p.options.MostOpen, Most: p.options.Most,
	})
	switch {
	case err == nil:
		p.log.Info("a command asks", "session", call.Session, "call", call.Call, "upstream", to.Name)
		return call, nil
	case errors.Is(err, store.ErrConflict):
		return none, &refused{code: connect.CodeAlreadyExists, message: "the Idempotency-Key was used for something else: take another"}
	case errors.Is(err, store.ErrNotFound):
		return none, notYours
	case errors.Is(err, store.ErrBusy):
		return none, &refused{code: connect.CodeResourceExhausted, message: "the command has asked for too much", after: time.Second}
	}
	p.log.Warn("what a command asks cannot be written down", "session", who.is.Session, "error", err)
	return none, &refused{code: connect.CodeUnavailable, message: "the database does not answer now: try again", after: time.Second}
}

var errBody = errors.New("the body is too long, or came too slowly")

func (p *proxy) read(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(p.door.options.BodyTime)); err != nil {
		return nil, errBody
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		return nil, errBody
	}
	return body, control.SetReadDeadline(time.Time{})
}

// answer waits for the answer, for as long as it takes or as the command wants, and gives it.
func (p *proxy) answer(w http.ResponseWriter, r *http.Request, call store.Callback) {
	w.Header().Set("Flyfleet-Call", call.Call)
	ctx, end, err := p.begin(r.Context())
	if err == nil {
		defer end()
		if wait, bounded := patience(r); bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, wait, errNotYet)
			defer cancel()
		}
		err = p.wait(ctx, call)
	}
	switch {
	case err == nil:
		p.tell(w, r, call)
	case r.Context().Err() != nil:
		// The command has gone; it may come back for its answer.
	case errors.Is(err, errNotYet):
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"code":"pending","message":"there is no answer yet: send the same request again, with the same Idempotency-Key"}`+"\n")
	default:
		p.refuse(w, r, &refused{code: connect.CodeUnavailable, message: "no answer here: send the same request again, with the same Idempotency-Key", after: time.Second})
	}
}

var errNotYet = errors.New("there is no answer yet")

// patience is what "Prefer: wait=N" says (RFC 7240): the command does not want to wait longer.
func patience(r *http.Request) (time.Duration, bool) {
	for _, line := range r.Header.Values("Prefer") {
		for preference := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
			seconds, err := strconv.Atoi(value)
			if strings.EqualFold(name, "wait") && err == nil && seconds >= 0 && seconds <= 86400 {
				return time.Duration(seconds) * time.Second, true
			}
		}
	}
	return 0, false
}

func (p *proxy) wait(ctx context.Context, call store.Callback) error {
	if call.State == store.CallbackAnswered {
		return nil
	}
	look, stop := p.store.Notifier().Watch(call.Session)
	defer stop()
	for {
		select {
		case <-look:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		state, err := p.store.CallbackState(ctx, call.Session, call.Call)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case state == store.CallbackAnswered:
			return nil
		}
	}
}

// outcomes are what a command gets when no upstream answered.
var outcomes = map[journalv1.ToolOutcome]struct {
	status int
	word   string
}{
	journalv1.ToolOutcome_TOOL_OUTCOME_OK:        {http.StatusOK, "ok"},
	journalv1.ToolOutcome_TOOL_OUTCOME_ERROR:     {http.StatusBadGateway, "failed"},
	journalv1.ToolOutcome_TOOL_OUTCOME_DENIED:    {http.StatusForbidden, "denied"},
	journalv1.ToolOutcome_TOOL_OUTCOME_UNKNOWN:   {http.StatusBadGateway, "unknown"},
	journalv1.ToolOutcome_TOOL_OUTCOME_CANCELLED: {http.StatusConflict, "cancelled"},
}

// tell writes the answer.
func (p *proxy) tell(w http.ResponseWriter, r *http.Request, call store.Callback) {
	if err := p.room.Acquire(r.Context(), min(answerRoom, p.most)); err != nil {
		return
	}
	defer p.room.Release(min(answerRoom, p.most))
	came, answer, err := p.store.CallbackAnswer(r.Context(), call.Session, call.Call)
	if err != nil {
		p.refuse(w, r, &refused{code: connect.CodeUnavailable, message: "the answer cannot be read now: try again", after: time.Second})
		return
	}
	outcome := outcomes[came]
	w.Header().Set("Flyfleet-Outcome", outcome.word)
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(answerTime))
	if err := write(w, r, answer, outcome.status, outcome.word); err != nil {
		return
	}
	if control.Flush() != nil {
		return
	}
	_ = control.SetWriteDeadline(time.Time{})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 5*time.Second)
	defer cancel()
	if err := p.store.CallbackTold(ctx, call.Session, call.Call); err != nil {
		p.log.WarnContext(ctx, "an answer is not noted as told", "call", call.Call, "error", err)
	}
}

// refuse answers as plain HTTP: commands speak no Connect.
func (p *proxy) refuse(w http.ResponseWriter, r *http.Request, why *refused) {
	p.door.prepare(w, r, why)
	writeError(w, why.asError())
}

// answerRoom is what an answer takes on its way.
const answerRoom = 8 << 20

// write says how long the answer is, so that the command has its end with its last byte: otherwise that is sent when the request
// is over, after the call was noted as told, and a command that misses it sends what would be another call.
func write(w http.ResponseWriter, r *http.Request, answer store.Answer, status int, word string) error {
	if len(answer.Data) == 0 {
		text, err := json.Marshal(map[string]string{"code": word, "message": strings.ToValidUTF8(string(answer.Content), "\uFFFD")})
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
		w.WriteHeader(status)
		_, err = w.Write(append(text, '\n'))
		return err
	}
	said, err := upstream.DecodeAnswer(answer.Data)
	if err != nil {
		return err
	}
	for name, value := range said.Headers {
		w.Header().Set(name, value)
	}
	if w.Header().Get("Content-Type") == "" {
		// Nobody guesses what it is.
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	bodiless := r.Method == http.MethodHead || said.Status == http.StatusNoContent || said.Status == http.StatusNotModified
	if !bodiless {
		w.Header().Set("Content-Length", strconv.Itoa(len(said.Body)))
	}
	w.WriteHeader(said.Status)
	if bodiless {
		return nil
	}
	_, err = w.Write(said.Body)
	return err
}
