// Package logs merges the logs of all containers of an application, or of one pod, into one stream.
// The plugin and the application center share it.
//
//	pods ──► containers ──► one log each ──► mux: a line at a time ──► Sink
//
// Safety rule: lines are never interleaved, and not repeated after a lost connection. Omissions are
// reported: pods that cannot be read, and containers beyond the limit.
package logs

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/kubeclient"
)

// Options select the logs to read.
type Options struct {
	// Component and Container select by name; empty means all.
	Component, Container string
	// Follow streams new lines until the context ends.
	Follow bool
	// Previous reads the logs of the previous instances of restarted containers.
	Previous bool
	// Tail limits the existing lines of each running container; -1 means all.
	Tail int64
	// Since skips lines older than this duration; 0 means no limit.
	Since time.Duration
	// MaxStreams limits the containers that are followed at the same time.
	MaxStreams int
	// MaxContainers limits the containers that are read without Follow; 0 means no limit.
	MaxContainers int
	// Hints are next steps in the terms of the caller.
	Hints Hints
}

// Hints are next steps that depend on the caller, for example on its flags.
type Hints struct {
	// SelectFewer explains how to select fewer containers, or to raise the limit.
	SelectFewer string
	// OmitPrevious explains how to read the logs of the current containers.
	OmitPrevious string
}

// Line is one line of a log.
type Line struct {
	Component string `json:"component,omitempty"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// Time is the timestamp of the line; messages of the API server itself have none.
	Time string `json:"time,omitempty"`
	Text string `json:"text"`
	// Prefix is a short form of component, pod and container for terminals.
	Prefix string `json:"-"`
}

// Sink receives lines one at a time.
type Sink interface {
	// WriteLine writes a line. An error means that the reader has gone.
	WriteLine(line Line) error
	// Notify reports omissions and errors.
	Notify(sentence string)
}

// StreamApplication streams the logs of all pods of an application.
func StreamApplication(ctx context.Context, c client.Reader, pods kubernetes.Interface, app appkind.Application, o Options, out Sink) error {
	r := &reader{Reader: c, pods: pods, namespace: app.GetNamespace(), app: app, options: o, otherWorkloads: map[kubeclient.WorkloadKey]bool{}}
	if err := r.loadWorkloads(ctx); err != nil {
		return err
	}
	return r.run(ctx, out)
}

// StreamPod streams the logs of one pod.
func StreamPod(ctx context.Context, c client.Reader, pods kubernetes.Interface, namespace, name string, o Options, out Sink) error {
	r := &reader{Reader: c, pods: pods, namespace: namespace, pod: name, options: o}
	return r.run(ctx, out)
}
