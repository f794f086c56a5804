package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

const (
	// unattended ends a script that nobody listens to, so that a caller that died leaves no process behind.
	unattended = time.Minute
	// bulkBytes is from where on stdin or an answer goes over the bulk connection.
	bulkBytes = 1 << 20
	// answerCap is how much of an answer the machine keeps, where an operation does not say.
	answerCap = 64 << 20
)

// operation is one call of a caller: the execs of one intent.
type operation struct {
	*link
	dir  string
	id   string
	once bool
	op   string // the verb, for errors
}

// begin starts an operation. The context's end comes before everything else, also before a wrong name.
func (s *Sandbox) begin(ctx context.Context, op string) (operation, error) {
	o := operation{link: s.link, dir: s.dir, id: s.once, once: s.once != "", op: op}
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	if o.once {
		if _, err := wire.IDTime(o.id); err != nil {
			return o, fmt.Errorf("id of a Once view: %w: %w", syscall.EINVAL, err)
		}
		return o, nil
	}
	var err error
	o.id, err = wire.NewID()
	return o, err
}

// job is one exec of an operation.
type job struct {
	script script
	// part names the job within the operation; empty is its first, whose id is the operation's own.
	part string
	// dir is where the script starts: the operation's, when empty.
	dir   string
	args  []string
	stdin []byte
	// source is stdin of that length that is not in memory; stdin is then empty.
	source io.Reader
	length int64
	// open leaves stdin to be fed from source as it comes, without a promised length.
	open bool
	cap  uint64
	// most ends the job when the answer is larger.
	most int64
	// beside is where standard error goes; nil drops it.
	beside *[]byte
	// take gets the answer as it comes; nil collects it.
	take func(data []byte) error
}

// errTooLarge says that an answer is larger than the job allows; errGap, that the machine does not have all of it any more.
var (
	errTooLarge = errors.New("the answer is larger than asked for")
	errGap      = errors.New("the machine did not keep the answer")
)

func (o operation) idOf(part string) (string, error) {
	if part == "" {
		return o.id, nil
	}
	return wire.DeriveID(o.id, part)
}

func (o operation) spec(j *job) *wirev1.ExecSpec {
	dir := o.dir
	if j.dir != "" {
		dir = j.dir
	}
	argv := [][]byte{[]byte("sh"), []byte("-c"), []byte(j.script.text), []byte("flyfleet"), []byte(dir)}
	for _, a := range j.args {
		argv = append(argv, []byte(a))
	}
	spec := &wirev1.ExecSpec{
		Argv: argv, Env: []*wirev1.EnvVar{{Name: []byte("LC_ALL"), Value: []byte("C")}}, Cwd: []byte("/"),
		UnattendedTimeoutMs: unattended.Milliseconds(), StdoutCapBytes: j.cap, StderrCapBytes: 64 << 10,
	}
	if j.beside != nil {
		spec.StderrCapBytes = answerCap
	}
	if j.cap == 0 {
		spec.StdoutCapBytes = answerCap
	}
	spec.Stdin, j.source = input(j.stdin, j.source, j.length, j.open)
	return spec
}

// input is the spec of a stdin, and what has to be fed to it beside.
func input(content []byte, source io.Reader, length int64, open bool) (*wirev1.Stdin, io.Reader) {
	switch {
	case open:
		return &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE}, source
	case source != nil:
		// The hash is not known before; the script counts.
		return &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE, Length: uint64(length)}, source
	case len(content) == 0:
		return nil, nil
	case len(content) <= wire.MaxInlineStdin:
		return &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_INLINE, Inline: content}, nil
	}
	sum := sha256.Sum256(content)
	return &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE, Length: uint64(len(content)), Sha256: sum[:]}, bytes.NewReader(content)
}

// run runs a job to its end and returns what it answered. Any error but errTooLarge, errGap and one of take is in the seam's form.
func (o operation) run(ctx context.Context, j job) ([]byte, error) {
	id, err := o.idOf(j.part)
	if err != nil {
		return nil, err
	}
	spec := o.spec(&j)
	over := o.control
	if len(j.stdin) > bulkBytes || j.length > bulkBytes || j.open || j.cap > bulkBytes {
		over = o.bulk
	}
	a := &answer{most: j.most, take: j.take, beside: j.beside}
	follow := client.Follow{Wait: o.wait, Patience: o.patience, Stdin: j.source, TermOnCancel: !o.once}
	result, err := over.Run(ctx, client.Command{ID: id, Spec: spec, Follow: follow}, a)
	if !o.once && result.Exit != nil {
		o.forget.add(id)
	}
	switch {
	case a.failed != nil:
		return nil, a.failed
	case err != nil && ctx.Err() == nil && result.Started != nil && wire.ReasonOf(err) == wirev1.ErrorReason_ERROR_REASON_UNKNOWN_EXEC:
		return nil, &sandbox.LostError{ID: id, Reason: "the machine does not know it any more"}
	case err != nil:
		var source *client.SourceError
		if errors.As(err, &source) && ctx.Err() == nil {
			return nil, source.Err
		}
		return nil, failure(ctx, err)
	case result.Lost != nil:
		return nil, lost(id, result.Lost)
	}
	return a.content, o.judge(j.script, exitOf(id, result.Exit))
}

// judge turns the end of a script into an error, unless it ended as it should.
func (o operation) judge(s script, exit sandbox.Exit) error {
	switch {
	case exit.Cause == sandbox.CauseExited && exit.Code == 0:
		return nil
	case exit.Cause == sandbox.CauseExited && exit.Code == readFailed:
		return syscall.EIO
	case exit.Code == 126, exit.Code == 127:
		return fmt.Errorf("%w: the machine lacks a program of the script %q: it needs a POSIX shell, and coreutils, findutils and tar or busybox", sandbox.ErrUnsupported, s.name)
	case exit.Cause == sandbox.CauseExited && exit.Signal == 0:
		return fmt.Errorf("the script %q ended with %d: %w", s.name, exit.Code, syscall.EIO)
	}
	ended := &endedError{exit}
	return &sandbox.UnavailableError{Reason: ended.Error(), Err: ended}
}

// endedError says that a script was ended by somebody else.
type endedError struct{ exit sandbox.Exit }

func (e *endedError) Error() string {
	return fmt.Sprintf("the operation was ended on the machine (%s, signal %d)", e.exit.Cause, e.exit.Signal)
}

// readFailed is with what a script ends whose program failed in the middle of an answer.
const readFailed = 9

// answer is the Sink of a job.
type answer struct {
	most    int64
	take    func([]byte) error
	beside  *[]byte
	content []byte
	had     int64
	failed  error
}

func (a *answer) Started(*wirev1.Started) error { return nil }

func (a *answer) Output(stream wirev1.Stream, _ uint64, data []byte) error {
	if stream != wirev1.Stream_STREAM_STDOUT {
		if a.beside != nil {
			*a.beside = append(*a.beside, data...)
		}
		return nil
	}
	a.had += int64(len(data))
	switch {
	case a.most > 0 && a.had > a.most:
		a.failed = errTooLarge
	case a.take != nil:
		a.failed = a.take(data)
	default:
		a.content = append(a.content, data...)
	}
	return a.failed
}

func (a *answer) Gap(g *wirev1.Gap) error {
	if g.GetStream() == wirev1.Stream_STREAM_STDOUT || a.beside != nil {
		a.failed = errGap
		switch g.GetReason() {
		case wirev1.GapReason_GAP_REASON_QUOTA, wirev1.GapReason_GAP_REASON_DISK_FULL:
			a.failed = &sandbox.UnavailableError{Reason: "the machine has no room for the answer", Err: errGap}
		case wirev1.GapReason_GAP_REASON_COLLECTED:
			a.failed = fmt.Errorf("%w: %w", sandbox.ErrExpired, errGap)
		}
	}
	return a.failed
}

// statusOf reads the first line of an answer: nil for ok, an errno otherwise. rest is what follows.
func statusOf(answer []byte) (word string, rest []byte, err error) {
	line, rest, whole := bytes.Cut(answer, []byte("\n"))
	if !whole {
		return "", nil, errTorn
	}
	if len(line) > 0 && line[0] == 'E' {
		errno, known := errnos[string(line)]
		if !known {
			return "", nil, errTorn
		}
		return "", nil, errno
	}
	return string(line), rest, nil
}

// errnos are those that scripts name.
var errnos = map[string]syscall.Errno{
	"EACCES": syscall.EACCES, "EBUSY": syscall.EBUSY, "EEXIST": syscall.EEXIST, "EFBIG": syscall.EFBIG, "EINVAL": syscall.EINVAL,
	"EIO": syscall.EIO, "EISDIR": syscall.EISDIR, "ELOOP": syscall.ELOOP, "ENAMETOOLONG": syscall.ENAMETOOLONG, "ENOENT": syscall.ENOENT,
	"ENOSPC": syscall.ENOSPC, "ENOTDIR": syscall.ENOTDIR, "ENOTEMPTY": syscall.ENOTEMPTY, "EPERM": syscall.EPERM, "EROFS": syscall.EROFS,
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
