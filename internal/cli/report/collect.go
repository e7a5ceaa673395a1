package report

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/doctor"
	"github.com/holdfast-dev/holdfast/internal/cli/look"
	"github.com/holdfast-dev/holdfast/internal/cli/tree"
	"github.com/holdfast-dev/holdfast/internal/cli/version"
	"github.com/holdfast-dev/holdfast/internal/cli/why"
	"github.com/holdfast-dev/holdfast/internal/edit"
	"github.com/holdfast-dev/holdfast/internal/revisions"
)

// application looks at the application as why and tree do, and keeps what they saw.
func (c *collector) application(ctx context.Context) error {
	raw, err := edit.Raw(ctx, c.client, c.app)
	if err != nil {
		return err
	}
	if err := c.bundle.value("application.yaml", application.KindOf(c.app), raw.Object); err != nil {
		return err
	}
	if c.seen, err = look.At(ctx, c.client, c.app, true, c.now); err != nil {
		return err
	}
	for _, missed := range c.seen.Missed {
		c.bundle.note(missed)
	}
	var text bytes.Buffer
	why.Print(cli.Terminal{Writer: &text}, c.seen, c.now, true)
	c.bundle.text("why.txt", "why it is not ready, for people", text.String())
	text.Reset()
	tree.Print(cli.Terminal{Writer: &text}, c.seen, c.now)
	c.bundle.text("tree.txt", "from components down to pods, for people", text.String())
	if err := c.bundle.value("why.json", "the same for programs", c.seen.Answer("Explanation")); err != nil {
		return err
	}
	if err := c.bundle.value("tree.json", "the same for programs", c.seen.Answer("Tree")); err != nil {
		return err
	}
	for _, obj := range c.seen.Objects {
		o, ok := obj.(client.Object)
		kind := obj.GetObjectKind().GroupVersionKind().Kind
		if !ok || kind == "Event" || kind == "Node" { // they come in another form
			continue
		}
		if err := c.object(kind, o); err != nil {
			return err
		}
	}
	return nil
}

// object adds an object.
func (c *collector) object(kind string, o client.Object) error {
	return c.bundle.value(fmt.Sprintf("objects/%s/%s.yaml", strings.ToLower(kind), o.GetName()), kind, o)
}

// configMaps are those that the operator made. Their contents are left out.
func (c *collector) configMaps(ctx context.Context) error {
	var list corev1.ConfigMapList
	err := c.client.List(ctx, &list, client.InNamespace(c.app.GetNamespace()), client.MatchingLabels{appsapi.LabelOwnerUID: string(c.app.GetUID())})
	if err != nil {
		return err
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		if err := c.object("ConfigMap", &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// revision is one of them as the file has it.
type revision struct {
	Revision int64          `json:"revision"`
	Name     string         `json:"name"`
	Created  time.Time      `json:"created"`
	Healthy  bool           `json:"healthy"`
	Current  bool           `json:"current"`
	Spec     revisions.Spec `json:"spec"`
}

func (c *collector) revisions(ctx context.Context) error {
	if _, ok := c.app.(*appsapi.AppService); ok {
		return nil // it has none
	}
	all, err := revisions.List(ctx, c.client, c.app)
	if err != nil {
		return err
	}
	for _, r := range all {
		what := fmt.Sprintf("revision %d", r.Number)
		err := c.bundle.value(fmt.Sprintf("revisions/%d.yaml", r.Number), what, revision{r.Number, r.Name, r.Created.UTC(), r.Healthy, r.Current, r.Spec})
		if err != nil {
			return err
		}
	}
	return nil
}

// maxNodes is how many nodes are read at most.
const maxNodes = 20

// node is what the file has of a node.
type node struct {
	Name       string                 `json:"name"`
	Conditions []corev1.NodeCondition `json:"conditions"`
}

// pods are those of the application.
func (c *collector) pods() []*corev1.Pod {
	var out []*corev1.Pod
	for _, obj := range c.seen.Objects {
		if pod, ok := obj.(*corev1.Pod); ok {
			out = append(out, pod)
		}
	}
	return out
}

// nodes are those that pods of the application are on. Only their conditions are kept.
func (c *collector) nodes(ctx context.Context) error {
	var names []string
	for _, pod := range c.pods() {
		if n := pod.Spec.NodeName; n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	if len(names) > maxNodes {
		c.bundle.miss("Nodes", fmt.Errorf("%d of %d were not read; these are enough for most bugs", len(names)-maxNodes, len(names)))
		names = names[:maxNodes]
	}
	nodes := []node{}
	for _, name := range names {
		var n corev1.Node
		if err := c.client.Get(ctx, client.ObjectKey{Name: name}, &n); client.IgnoreNotFound(err) != nil {
			return err
		}
		nodes = append(nodes, node{name, n.Status.Conditions})
	}
	if len(nodes) == 0 {
		return nil
	}
	return c.bundle.value("nodes.yaml", "conditions of the nodes with its pods", nodes)
}

// A namespace may have very many events, and each page is a request.
const (
	eventPages = 20
	eventPage  = 500
)

// event is what the file has of an event.
type event struct {
	Last    time.Time `json:"last"`
	Count   int32     `json:"count,omitempty"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Object  string    `json:"object"`
	Field   string    `json:"field,omitempty"`
	Message string    `json:"message"`
	From    string    `json:"from,omitempty"`
}

// events are those about the application and everything that belongs to it.
func (c *collector) events(ctx context.Context) error {
	about := map[types.UID]bool{c.app.GetUID(): true}
	for _, obj := range c.seen.Objects {
		if o, ok := obj.(client.Object); ok {
			about[o.GetUID()] = true
		}
	}
	found := []event{}
	more := ""
	for range eventPages {
		var list corev1.EventList
		if err := c.client.List(ctx, &list, client.InNamespace(c.app.GetNamespace()), client.Limit(eventPage), client.Continue(more)); err != nil {
			return err
		}
		for i := range list.Items {
			e := eventOf(&list.Items[i])
			if about[list.Items[i].InvolvedObject.UID] && (c.since == 0 || c.now.Sub(e.Last) <= c.since) {
				found = append(found, e)
			}
		}
		if more = list.Continue; more == "" {
			break
		}
	}
	if more != "" {
		c.bundle.miss("Events", fmt.Errorf("namespace %s has more than %d, and the others were not read", c.app.GetNamespace(), eventPages*eventPage))
	}
	slices.SortStableFunc(found, func(a, b event) int { return cmp.Or(a.Last.Compare(b.Last), cmp.Compare(a.Object, b.Object)) })
	return c.bundle.value("events.yaml", "what was said about it and its objects, the latest last", found)
}

func eventOf(e *corev1.Event) event {
	last := e.LastTimestamp.Time
	for _, t := range []time.Time{e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time} {
		if last.IsZero() {
			last = t
		}
	}
	count := e.Count
	if e.Series != nil {
		last, count = e.Series.LastObservedTime.Time, e.Series.Count
	}
	return event{
		Last: last.UTC(), Count: count, Type: e.Type, Reason: e.Reason, Object: e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name,
		Field: e.InvolvedObject.FieldPath, Message: e.Message, From: cmp.Or(e.ReportingController, e.Source.Component),
	}
}

func (c *collector) versions(ctx context.Context) error {
	v, missing, err := version.Ask(ctx, c.env, c.operator)
	if v.Operator == nil && missing != "" {
		c.bundle.note("version of the operator: " + missing)
	}
	if written := c.bundle.value("versions.yaml", "of plugin, operator and API server", v); err == nil {
		err = written
	}
	return err
}

func (c *collector) doctor(ctx context.Context) error {
	checks, err := doctor.Examine(ctx, c.env, c.operator)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	doctor.Print(checks, false, cli.Terminal{Writer: &text})
	c.bundle.text("doctor.txt", "is the installation as it should be", text.String())
	return nil
}
