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

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
	"github.com/holdfast-dev/holdfast/internal/cli/doctor"
	"github.com/holdfast-dev/holdfast/internal/cli/tree"
	"github.com/holdfast-dev/holdfast/internal/cli/version"
	"github.com/holdfast-dev/holdfast/internal/cli/why"
	"github.com/holdfast-dev/holdfast/internal/edit"
	"github.com/holdfast-dev/holdfast/internal/revision"
	"github.com/holdfast-dev/holdfast/internal/revision/reader"
)

// collectApplication adds the application, its objects and the output of why and tree.
func (c *collector) collectApplication(ctx context.Context) error {
	raw, err := edit.ReadRaw(ctx, c.client, c.app)
	if err != nil {
		return err
	}
	if err := c.bundle.addValue("application.yaml", appkind.Of(c.app).Kind, raw.Object); err != nil {
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
	c.bundle.addText("why.txt", "output of kubectl holdfast why --all", text.String())
	text.Reset()
	tree.Print(cli.Terminal{Writer: &text}, c.result, c.now)
	c.bundle.addText("tree.txt", "output of kubectl holdfast tree", text.String())
	if err := c.bundle.addValue("why.json", "the same as JSON", c.result.Document("Explanation")); err != nil {
		return err
	}
	if err := c.bundle.addValue("tree.json", "the same as JSON", c.result.Document("Tree")); err != nil {
		return err
	}
	for _, obj := range c.result.Objects {
		o, ok := obj.(client.Object)
		kind := obj.GetObjectKind().GroupVersionKind().Kind
		if !ok || kind == "Event" || kind == "Node" { // added by collectEvents and collectNodes
			continue
		}
		if err := c.addObject(kind, o); err != nil {
			return err
		}
	}
	return nil
}

// addObject adds an object as YAML.
func (c *collector) addObject(kind string, o client.Object) error {
	return c.bundle.addValue(fmt.Sprintf("objects/%s/%s.yaml", strings.ToLower(kind), o.GetName()), kind, o)
}

// collectConfigMaps adds the ConfigMaps that the operator created. Their contents are redacted.
func (c *collector) collectConfigMaps(ctx context.Context) error {
	var list corev1.ConfigMapList
	err := c.client.List(ctx, &list, client.InNamespace(c.app.GetNamespace()), client.MatchingLabels{appkind.Of(c.app).Keys.OwnerUID: string(c.app.GetUID())})
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

// revisionEntry is a revision in the report.
type revisionEntry struct {
	Revision int64         `json:"revision"`
	Name     string        `json:"name"`
	Created  time.Time     `json:"created"`
	Healthy  bool          `json:"healthy"`
	Current  bool          `json:"current"`
	Spec     revision.Spec `json:"spec"`
}

func (c *collector) collectRevisions(ctx context.Context) error {
	if appkind.Of(c.app).History == nil {
		return nil
	}
	all, err := reader.List(ctx, c.client, c.app)
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

// maxNodes limits the number of nodes that are read.
const maxNodes = 20

// nodeEntry is a node in the report.
type nodeEntry struct {
	Name       string                 `json:"name"`
	Conditions []corev1.NodeCondition `json:"conditions"`
}

// pods returns the pods of the application.
func (c *collector) pods() []*corev1.Pod {
	var out []*corev1.Pod
	for _, obj := range c.result.Objects {
		if pod, ok := obj.(*corev1.Pod); ok {
			out = append(out, pod)
		}
	}
	return out
}

// collectNodes adds the conditions of the nodes that run pods of the application.
func (c *collector) collectNodes(ctx context.Context) error {
	var names []string
	for _, pod := range c.pods() {
		if n := pod.Spec.NodeName; n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	if len(names) > maxNodes {
		c.bundle.addUnread("Nodes", fmt.Errorf("%d of %d were not read because of the limit", len(names)-maxNodes, len(names)))
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
	return c.bundle.addValue("nodes.yaml", "conditions of the nodes that run its pods", nodes)
}

// Limits for events: a namespace can have many, and each page is a request.
const (
	maxEventPages = 20
	eventPageSize = 500
)

// eventEntry is an event in the report.
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

// collectEvents adds the events of the application and its objects.
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
		c.bundle.addUnread("Events", fmt.Errorf("namespace %s has more than %d events; the others were not read",
			c.app.GetNamespace(), maxEventPages*eventPageSize))
	}
	slices.SortStableFunc(found, func(a, b eventEntry) int { return cmp.Or(a.Last.Compare(b.Last), cmp.Compare(a.Object, b.Object)) })
	return c.bundle.addValue("events.yaml", "events of the application and its objects, oldest first", found)
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
	if writeErr := c.bundle.addValue("versions.yaml", "versions of the plugin, the operator and the API server", v); err == nil {
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
	c.bundle.addText("doctor.txt", "output of kubectl holdfast doctor", text.String())
	return nil
}
