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
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
	"github.com/holdfast-dev/holdfast/internal/cli/doctor"
	"github.com/holdfast-dev/holdfast/internal/cli/tree"
	"github.com/holdfast-dev/holdfast/internal/cli/version"
	"github.com/holdfast-dev/holdfast/internal/cli/why"
	"github.com/holdfast-dev/holdfast/internal/edit"
	"github.com/holdfast-dev/holdfast/internal/revisions"
)

// collectApplication looks at the application as why and tree do, and keeps what they saw.
func (c *collector) collectApplication(ctx context.Context) error {
	raw, err := edit.ReadRaw(ctx, c.client, c.app)
	if err != nil {
		return err
	}
	if err := c.bundle.addValue("application.yaml", application.KindOf(c.app), raw.Object); err != nil {
		return err
	}
	if c.result, err = collect.Application(ctx, c.client, c.app, true, c.now); err != nil {
		return err
	}
	for _, note := range c.result.Unread {
		c.bundle.addUnreadNote(note)
	}
	var text bytes.Buffer
	why.Print(cli.Terminal{Writer: &text}, c.result, c.now, true)
	c.bundle.addText("why.txt", "why it is not ready, for people", text.String())
	text.Reset()
	tree.Print(cli.Terminal{Writer: &text}, c.result, c.now)
	c.bundle.addText("tree.txt", "from components down to pods, for people", text.String())
	if err := c.bundle.addValue("why.json", "the same for programs", c.result.Document("Explanation")); err != nil {
		return err
	}
	if err := c.bundle.addValue("tree.json", "the same for programs", c.result.Document("Tree")); err != nil {
		return err
	}
	for _, obj := range c.result.Objects {
		o, ok := obj.(client.Object)
		kind := obj.GetObjectKind().GroupVersionKind().Kind
		if !ok || kind == "Event" || kind == "Node" { // they come in another form
			continue
		}
		if err := c.addObject(kind, o); err != nil {
			return err
		}
	}
	return nil
}

// addObject adds an object.
func (c *collector) addObject(kind string, o client.Object) error {
	return c.bundle.addValue(fmt.Sprintf("objects/%s/%s.yaml", strings.ToLower(kind), o.GetName()), kind, o)
}

// collectConfigMaps are those that the operator made. Their contents are left out.
func (c *collector) collectConfigMaps(ctx context.Context) error {
	var list corev1.ConfigMapList
	err := c.client.List(ctx, &list, client.InNamespace(c.app.GetNamespace()), client.MatchingLabels{appsapi.LabelOwnerUID: string(c.app.GetUID())})
	if err != nil {
		return err
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		if err := c.addObject("ConfigMap", &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// revisionEntry is one of them as the file has it.
type revisionEntry struct {
	Revision int64          `json:"revision"`
	Name     string         `json:"name"`
	Created  time.Time      `json:"created"`
	Healthy  bool           `json:"healthy"`
	Current  bool           `json:"current"`
	Spec     revisions.Spec `json:"spec"`
}

func (c *collector) collectRevisions(ctx context.Context) error {
	if _, ok := c.app.(*appsapi.AppService); ok {
		return nil // it has none
	}
	all, err := revisions.List(ctx, c.client, c.app)
	if err != nil {
		return err
	}
	for _, r := range all {
		description := fmt.Sprintf("revision %d", r.Number)
		err := c.bundle.addValue(fmt.Sprintf("revisions/%d.yaml", r.Number), description, revisionEntry{r.Number, r.Name, r.Created.UTC(), r.Healthy, r.Current, r.Spec})
		if err != nil {
			return err
		}
	}
	return nil
}

// maxNodes is how many nodes are read at most.
const maxNodes = 20

// nodeEntry is what the file has of a node.
type nodeEntry struct {
	Name       string                 `json:"name"`
	Conditions []corev1.NodeCondition `json:"conditions"`
}

// pods are those of the application.
func (c *collector) pods() []*corev1.Pod {
	var out []*corev1.Pod
	for _, obj := range c.result.Objects {
		if pod, ok := obj.(*corev1.Pod); ok {
			out = append(out, pod)
		}
	}
	return out
}

// collectNodes are those that pods of the application are on. Only their conditions are kept.
func (c *collector) collectNodes(ctx context.Context) error {
	var names []string
	for _, pod := range c.pods() {
		if n := pod.Spec.NodeName; n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	if len(names) > maxNodes {
		c.bundle.addUnread("Nodes", fmt.Errorf("%d of %d were not read; these are enough for most bugs", len(names)-maxNodes, len(names)))
		names = names[:maxNodes]
	}
	nodes := []nodeEntry{}
	for _, name := range names {
		var n corev1.Node
		if err := c.client.Get(ctx, client.ObjectKey{Name: name}, &n); client.IgnoreNotFound(err) != nil {
			return err
		}
		nodes = append(nodes, nodeEntry{name, n.Status.Conditions})
	}
	if len(nodes) == 0 {
		return nil
	}
	return c.bundle.addValue("nodes.yaml", "conditions of the nodes with its pods", nodes)
}

// A namespace may have very many events, and each page is a request.
const (
	maxEventPages = 20
	eventPageSize = 500
)

// eventEntry is what the file has of an event.
type eventEntry struct {
	Last    time.Time `json:"last"`
	Count   int32     `json:"count,omitempty"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Object  string    `json:"object"`
	Field   string    `json:"field,omitempty"`
	Message string    `json:"message"`
	From    string    `json:"from,omitempty"`
}

// collectEvents are those about the application and everything that belongs to it.
func (c *collector) collectEvents(ctx context.Context) error {
	objectUIDs := map[types.UID]bool{c.app.GetUID(): true}
	for _, obj := range c.result.Objects {
		if o, ok := obj.(client.Object); ok {
			objectUIDs[o.GetUID()] = true
		}
	}
	found := []eventEntry{}
	continueToken := ""
	for range maxEventPages {
		var list corev1.EventList
		if err := c.client.List(ctx, &list, client.InNamespace(c.app.GetNamespace()), client.Limit(eventPageSize), client.Continue(continueToken)); err != nil {
			return err
		}
		for i := range list.Items {
			e := newEventEntry(&list.Items[i])
			if objectUIDs[list.Items[i].InvolvedObject.UID] && (c.since == 0 || c.now.Sub(e.Last) <= c.since) {
				found = append(found, e)
			}
		}
		if continueToken = list.Continue; continueToken == "" {
			break
		}
	}
	if continueToken != "" {
		c.bundle.addUnread("Events", fmt.Errorf("namespace %s has more than %d, and the others were not read", c.app.GetNamespace(), maxEventPages*eventPageSize))
	}
	slices.SortStableFunc(found, func(a, b eventEntry) int { return cmp.Or(a.Last.Compare(b.Last), cmp.Compare(a.Object, b.Object)) })
	return c.bundle.addValue("events.yaml", "what was said about it and its objects, the latest last", found)
}

func newEventEntry(e *corev1.Event) eventEntry {
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
	return eventEntry{
		Last: last.UTC(), Count: count, Type: e.Type, Reason: e.Reason, Object: e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name,
		Field: e.InvolvedObject.FieldPath, Message: e.Message, From: cmp.Or(e.ReportingController, e.Source.Component),
	}
}

func (c *collector) collectVersions(ctx context.Context) error {
	v, unknownReason, err := version.Detect(ctx, c.env, c.operatorNamespace)
	if v.Operator == nil && unknownReason != "" {
		c.bundle.addUnreadNote("version of the operator: " + unknownReason)
	}
	if writeErr := c.bundle.addValue("versions.yaml", "of plugin, operator and API server", v); err == nil {
		err = writeErr
	}
	return err
}

func (c *collector) collectDoctor(ctx context.Context) error {
	checks, err := doctor.RunChecks(ctx, c.env, c.operatorNamespace)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	doctor.Print(checks, false, cli.Terminal{Writer: &text})
	c.bundle.addText("doctor.txt", "is the installation as it should be", text.String())
	return nil
}
