package act

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
	// RecheckEvery is how often the right to follow is asked for again; 0 means the default.
	RecheckEvery time.Duration
}

func (o LogOptions) check() error {
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
func (c *Caller) Logs(ctx context.Context, ref Ref, o LogOptions, out logs.Out) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := ref.check(); err != nil {
		return err
	}
	if ref.Namespace == "" {
		return invalid("no namespace of %s given; name it", ref)
	}
	pods, err := kubernetes.NewForConfigAndClient(c.config, c.http)
	if err != nil {
		return failed(readsLogs, ref, err)
	}
	asked := ctx
	if o.Follow {
		var end context.CancelCauseFunc
		ctx, end = c.whileAllowed(ctx, pods, ref, o.RecheckEvery)
		defer end(nil)
	}
	b := newBounded(ctx, out, o.Limits)
	if ref.Kind == "Pod" {
		err = logs.OfPod(ctx, c.client, pods, ref.Namespace, ref.Name, o.shared(b.limits), b)
	} else {
		within, cancel := context.WithTimeout(ctx, patience)
		app, appErr := c.application(within, ref)
		cancel()
		if appErr != nil {
			return appErr
		}
		err = logs.OfApplication(ctx, c.client, pods, app, o.shared(b.limits), b)
	}
	var taken *Error
	switch {
	case asked.Err() == nil && errors.As(context.Cause(ctx), &taken):
		out.Say(taken.Message)
		return taken
	case err == nil, ctx.Err() != nil:
		return nil // the end of the context is that of the logs
	case errors.Is(err, errFull):
		out.Say(fmt.Sprintf("the logs of %s end here after %d bytes; ask for fewer lines, or for one component or container", ref, b.limits.Bytes))
		return nil
	case b.gone != nil:
		return b.gone // nobody reads any more
	}
	err = failed(readsLogs, ref, err)
	if b.began {
		out.Say(err.Error())
	}
	return err
}

func (o LogOptions) shared(limits LogLimits) logs.Options {
	tail := int64(-1)
	if o.Tail != nil {
		tail = *o.Tail
	}
	return logs.Options{
		Component: o.Component, Container: o.Container, Follow: o.Follow, Previous: o.Previous, Tail: tail, Since: o.Since,
		Streams: limits.Containers, AtMost: limits.Containers,
		Hints: logs.Hints{Fewer: "choose a component or a container", NotPrevious: "ask for what it writes now"},
	}
}

// errFull means that as much was given out as one reader gets.
var errFull = errors.New("enough")

// bounded passes lines on, not too fast and not too many.
type bounded struct {
	ctx    context.Context
	out    logs.Out
	limits LogLimits
	rate   *rate.Limiter
	given  int64
	began  bool
	gone   error
}

func newBounded(ctx context.Context, out logs.Out, l LogLimits) *bounded {
	if l.BytesPerSecond <= 0 {
		l.BytesPerSecond = DefaultLogLimits.BytesPerSecond
	}
	if l.Bytes <= 0 {
		l.Bytes = DefaultLogLimits.Bytes
	}
	if l.Containers <= 0 {
		l.Containers = DefaultLogLimits.Containers
	}
	return &bounded{ctx: ctx, out: out, limits: l, rate: rate.NewLimiter(rate.Limit(l.BytesPerSecond), l.BytesPerSecond)}
}

// Line passes a line on.
func (b *bounded) Line(line logs.Line) error {
	n := len(line.Text) + 1
	if b.given+int64(n) > b.limits.Bytes {
		return errFull
	}
	b.given += int64(n)
	for left := n; left > 0; left -= b.rate.Burst() {
		if err := b.rate.WaitN(b.ctx, min(left, b.rate.Burst())); err != nil {
			<-b.ctx.Done() // the limiter knows before that it will be too late
			return b.ctx.Err()
		}
	}
	b.began = true
	b.gone = b.out.Line(line)
	return b.gone
}

// Say passes a sentence on: it may be the API server's.
func (b *bounded) Say(sentence string) { b.out.Say(redact.Text(sentence)) }

// Text writes lines for people: who wrote them, with times if asked for, and sentences after a #.
func Text(w io.Writer, timestamps bool) logs.Out { return textOut{w, timestamps} }

type textOut struct {
	io.Writer
	timestamps bool
}

func (t textOut) Line(l logs.Line) error {
	if t.timestamps && l.Time != "" {
		l.Text = l.Time + " " + l.Text
	}
	_, err := io.WriteString(t, l.From+"  "+l.Text+"\n")
	return err
}

func (t textOut) Say(sentence string) { fmt.Fprintln(t, "# "+sentence) }

// JSON writes one object per line, for programs: a line of a log, or {"note": sentence}.
func JSON(w io.Writer, timestamps bool) logs.Out { return jsonOut{json.NewEncoder(w), timestamps} }

type jsonOut struct {
	*json.Encoder
	timestamps bool
}

func (j jsonOut) Line(l logs.Line) error {
	if !j.timestamps {
		l.Time = ""
	}
	return j.Encode(l)
}

// Say is lost when nobody reads any more, as the next line will find.
func (j jsonOut) Say(sentence string) {
	_ = j.Encode(struct {
		Note string `json:"note"`
	}{sentence})
}
