// Package logs makes one stream of the logs of all containers of an application, or of one pod.
// Plugin and center share it.
//
//	pods ──► containers ──► one log each ──► mux: a line at a time ──► Out
//
// Safety rule: no line is cut into another, and none is given out twice after a lost connection.
// What is not shown is said: a pod that cannot be read, and more of them than are read at once.
package logs

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/application"
)

// Options say what is read.
type Options struct {
	// Component and Container choose; empty means all.
	Component, Container string
	// Follow goes on with what is written, until the context ends.
	Follow bool
	// Previous is what containers wrote before they were restarted.
	Previous bool
	// Tail is how many lines of each container that runs already; -1 means all.
	Tail int64
	// Since leaves out what is older; 0 means nothing.
	Since time.Duration
	// MaxStreams is how many containers are followed at once.
	MaxStreams int
	// MaxContainers is how many containers are read when they are not followed; 0 means all.
	MaxContainers int
	// Hints are the next steps in the words of who asks.
	Hints Hints
}

// Hints are the next steps that depend on how somebody asks.
type Hints struct {
	// SelectFewer is how to choose, or to follow more.
	SelectFewer string
	// OmitPrevious is how to read what is not over.
	OmitPrevious string
}

// Line is one line of a log.
type Line struct {
	Component string `json:"component,omitempty"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// Time is when it was written; what the API server itself says has none.
	Time string `json:"time,omitempty"`
	Text string `json:"text"`
	// Prefix is all that in short, for people.
	Prefix string `json:"-"`
}

// Sink is where lines go, one at a time.
type Sink interface {
	// WriteLine gives out a line. An error means that nobody reads any more.
	WriteLine(line Line) error
	// Notify gives out a sentence about what cannot be shown.
	Notify(sentence string)
}

// StreamApplication reads the logs of all pods of an application.
func StreamApplication(ctx context.Context, c client.Reader, pods kubernetes.Interface, app application.Application, o Options, out Sink) error {
	r := &reader{Reader: c, pods: pods, namespace: app.GetNamespace(), app: app, options: o, otherWorkloads: map[application.WorkloadKey]bool{}}
	if err := r.loadWorkloads(ctx); err != nil {
		return err
	}
	return r.run(ctx, out)
}

// StreamPod reads the logs of one pod.
func StreamPod(ctx context.Context, c client.Reader, pods kubernetes.Interface, namespace, name string, o Options, out Sink) error {
	r := &reader{Reader: c, pods: pods, namespace: namespace, pod: name, options: o}
	return r.run(ctx, out)
}
