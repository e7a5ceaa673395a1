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

// LogLimits limits the load of one log stream.
type LogLimits struct {
	// BytesPerSecond is the maximum rate. Faster logs are delayed, not dropped.
	BytesPerSecond int
	// Bytes is the maximum size of the stream.
	Bytes int64
	// Containers is the maximum number of containers.
	Containers int
}

// DefaultLogLimits are the limits for fields that are 0.
var DefaultLogLimits = LogLimits{BytesPerSecond: 1 << 20, Bytes: 64 << 20, Containers: 20}

// LogOptions selects the logs to read.
type LogOptions struct {
	// Component and Container select containers. Empty means all.
	Component, Container string
	Follow, Previous     bool
	// Tail is the number of recent lines per container. Nil means all lines.
	Tail  *int64
	Since time.Duration
	// Limits override DefaultLogLimits; fields that are 0 keep the default.
	Limits LogLimits
	// RecheckInterval is the interval at which the permission is reviewed while following. 0 means 30 s.
	RecheckInterval time.Duration
}

func (o LogOptions) validate() error {
	switch {
	case o.Previous && o.Follow:
		return invalid("logs of a previous container cannot be followed; use either previous or follow")
	case o.Tail != nil && *o.Tail < 0:
		return invalid("tail must not be negative, got %d; omit it for all lines", *o.Tail)
	case o.Since < 0:
		return invalid("since must not be negative, got %s; use a duration like 5m", o.Since)
	}
	return nil
}

// Logs writes the logs of a pod, or of all pods of an application, to out. With Follow it streams until the
// context ends. Errors after the first line are also written to out, because the HTTP status has been sent.
func (c *Caller) Logs(ctx context.Context, ref Ref, o LogOptions, out logs.Sink) error {
	if err := o.validate(); err != nil {
		return err
	}
	if err := ref.validate(); err != nil {
		return err
	}
	if ref.Namespace == "" {
		return invalid("the namespace of %s is missing; add it", ref)
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
		return nil // a canceled context is a normal end
	case errors.Is(err, errLimitReached):
		out.Notify(fmt.Sprintf("logs of %s truncated after %d bytes; request fewer lines, or one component or container", ref, b.limits.Bytes))
		return nil
	case b.writeErr != nil:
		return b.writeErr // the client has disconnected
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
		Hints: logs.Hints{SelectFewer: "select a component or a container", OmitPrevious: "omit previous to get the current logs"},
	}
}

// errLimitReached means that LogLimits.Bytes is exceeded.
var errLimitReached = errors.New("log size limit reached")

// limitedOutput applies LogLimits to a sink.
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

// WriteLine writes a line within the limits.
func (b *limitedOutput) WriteLine(line logs.Line) error {
	n := len(line.Text) + 1
	if b.written+int64(n) > b.limits.Bytes {
		return errLimitReached
	}
	b.written += int64(n)
	for remaining := n; remaining > 0; remaining -= b.rate.Burst() {
		if err := b.rate.WaitN(b.ctx, min(remaining, b.rate.Burst())); err != nil {
			<-b.ctx.Done() // WaitN fails early if the deadline would pass while waiting
			return b.ctx.Err()
		}
	}
	b.started = true
	b.writeErr = b.out.WriteLine(line)
	return b.writeErr
}

// Notify writes a redacted message, because it may contain text of the API server.
func (b *limitedOutput) Notify(sentence string) { b.out.Notify(redact.Text(sentence)) }

// TextOutput writes plain text: each line with its pod and container and an optional timestamp, and messages
// after a #.
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

// JSONOutput writes one JSON object per line: a log line, or {"note": message}.
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

// Notify ignores write errors; the next WriteLine returns them.
func (j jsonOutput) Notify(sentence string) {
	_ = j.Encode(struct {
		Note string `json:"note"`
	}{sentence})
}
