package actions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/internal/logs"
	"github.com/holdfast-dev/holdfast/internal/redact"
)

// LogLimits bound what one reader of logs costs everybody else.
type LogLimits struct {
	// BytesPerSecond is how fast it goes; who writes faster is read later, nothing is left out.
	BytesPerSecond int
	// Bytes is where it ends.
	Bytes int64
	// Containers is how many are read.
	Containers int
}

// DefaultLogLimits are more than a person can read.
var DefaultLogLimits = LogLimits{BytesPerSecond: 1 << 20, Bytes: 64 << 20, Containers: 20}

// LogOptions say what of logs is read.
type LogOptions struct {
	// Component of an application and Container choose; empty means all.
	Component, Container string
	Follow, Previous     bool
	// Tail is how many lines of each container; nil means all.
	Tail  *int64
	Since time.Duration
	// Limits that are 0 are those of DefaultLogLimits.
	Limits LogLimits
	// RecheckInterval is how often the right to follow is asked for again; 0 means the default.
	RecheckInterval time.Duration
}

func (o LogOptions) validate() error {
	switch {
	case o.Previous && o.Follow:
		return invalid("what a container wrote before it was restarted is over and cannot be followed; ask for one of the two")
	case o.Tail != nil && *o.Tail < 0:
		return invalid("a tail of %d is not a number of lines; leave it out for all", *o.Tail)
	case o.Since < 0:
		return invalid("since %s is in the future; use a duration like 5m", o.Since)
	}
	return nil
}

// Logs gives out the logs of a pod, or of all pods of an application, until their end, or with
// Follow until the context ends. After the first line an error comes too late for an answer by
// HTTP: it is also said to out.
func (c *Caller) Logs(ctx context.Context, ref Ref, o LogOptions, out logs.Sink) error {
	if err := o.validate(); err != nil {
		return err
	}
	if err := ref.validate(); err != nil {
		return err
	}
	if ref.Namespace == "" {
		return invalid("no namespace of %s given; name it", ref)
	}
	kubeClient, err := kubernetes.NewForConfigAndClient(c.config, c.httpClient)
	if err != nil {
		return toError(opReadLogs, ref, err)
	}
	callerCtx := ctx
	if o.Follow {
		var stop context.CancelCauseFunc
		ctx, stop = c.watchLogAccess(ctx, kubeClient, ref, o.RecheckInterval)
		defer stop(nil)
	}
	b := newLimitedOutput(ctx, out, o.Limits)
	if ref.Kind == "Pod" {
		err = logs.StreamPod(ctx, c.client, kubeClient, ref.Namespace, ref.Name, o.toReaderOptions(b.limits), b)
	} else {
		getCtx, cancel := context.WithTimeout(ctx, requestTimeout)
		app, appErr := c.application(getCtx, ref)
		cancel()
		if appErr != nil {
			return appErr
		}
		err = logs.StreamApplication(ctx, c.client, kubeClient, app, o.toReaderOptions(b.limits), b)
	}
	var accessErr *Error
	switch {
	case callerCtx.Err() == nil && errors.As(context.Cause(ctx), &accessErr):
		out.Notify(accessErr.Message)
		return accessErr
	case err == nil, ctx.Err() != nil:
		return nil // the end of the context is that of the logs
	case errors.Is(err, errLimitReached):
		out.Notify(fmt.Sprintf("the logs of %s end here after %d bytes; ask for fewer lines, or for one component or container", ref, b.limits.Bytes))
		return nil
	case b.writeErr != nil:
		return b.writeErr // nobody reads any more
	}
	err = toError(opReadLogs, ref, err)
	if b.started {
		out.Notify(err.Error())
	}
	return err
}

func (o LogOptions) toReaderOptions(limits LogLimits) logs.Options {
	tail := int64(-1)
	if o.Tail != nil {
		tail = *o.Tail
	}
	return logs.Options{
		Component: o.Component, Container: o.Container, Follow: o.Follow, Previous: o.Previous, Tail: tail, Since: o.Since,
		MaxStreams: limits.Containers, MaxContainers: limits.Containers,
		Hints: logs.Hints{SelectFewer: "choose a component or a container", OmitPrevious: "ask for what it writes now"},
	}
}

// errLimitReached means that as much was given out as one reader gets.
var errLimitReached = errors.New("enough")

// limitedOutput passes lines on, not too fast and not too many.
type limitedOutput struct {
	ctx      context.Context
	out      logs.Sink
	limits   LogLimits
	rate     *rate.Limiter
	written  int64
	started  bool
	writeErr error
}

func newLimitedOutput(ctx context.Context, out logs.Sink, l LogLimits) *limitedOutput {
	if l.BytesPerSecond <= 0 {
		l.BytesPerSecond = DefaultLogLimits.BytesPerSecond
	}
	if l.Bytes <= 0 {
		l.Bytes = DefaultLogLimits.Bytes
	}
	if l.Containers <= 0 {
		l.Containers = DefaultLogLimits.Containers
	}
	return &limitedOutput{ctx: ctx, out: out, limits: l, rate: rate.NewLimiter(rate.Limit(l.BytesPerSecond), l.BytesPerSecond)}
}

// WriteLine passes a line on.
func (b *limitedOutput) WriteLine(line logs.Line) error {
	n := len(line.Text) + 1
	if b.written+int64(n) > b.limits.Bytes {
		return errLimitReached
	}
	b.written += int64(n)
	for remaining := n; remaining > 0; remaining -= b.rate.Burst() {
		if err := b.rate.WaitN(b.ctx, min(remaining, b.rate.Burst())); err != nil {
			<-b.ctx.Done() // the limiter knows before that it will be too late
			return b.ctx.Err()
		}
	}
	b.started = true
	b.writeErr = b.out.WriteLine(line)
	return b.writeErr
}

// Notify passes a sentence on: it may be the API server's.
func (b *limitedOutput) Notify(sentence string) { b.out.Notify(redact.Text(sentence)) }

// TextOutput writes lines for people: who wrote them, with times if asked for, and sentences after a #.
func TextOutput(w io.Writer, timestamps bool) logs.Sink { return textOutput{w, timestamps} }

type textOutput struct {
	io.Writer
	timestamps bool
}

func (t textOutput) WriteLine(l logs.Line) error {
	if t.timestamps && l.Time != "" {
		l.Text = l.Time + " " + l.Text
	}
	_, err := io.WriteString(t, l.Prefix+"  "+l.Text+"\n")
	return err
}

func (t textOutput) Notify(sentence string) { fmt.Fprintln(t, "# "+sentence) }

// JSONOutput writes one object per line, for programs: a line of a log, or {"note": sentence}.
func JSONOutput(w io.Writer, timestamps bool) logs.Sink {
	return jsonOutput{json.NewEncoder(w), timestamps}
}

type jsonOutput struct {
	*json.Encoder
	timestamps bool
}

func (j jsonOutput) WriteLine(l logs.Line) error {
	if !j.timestamps {
		l.Time = ""
	}
	return j.Encode(l)
}

// Notify is lost when nobody reads any more, as the next line will find.
func (j jsonOutput) Notify(sentence string) {
	_ = j.Encode(struct {
		Note string `json:"note"`
	}{sentence})
}
