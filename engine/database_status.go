package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/database"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/managercache"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
)

// databaseProbeSource lets servers be asked, and wakes the applications whose servers have answered.
func (r *reconciler[T]) databaseProbeSource(mgr ctrl.Manager) ctrlsource.Source {
	probeEvents := make(chan event.GenericEvent, maxConcurrentProbes)
	keeper := &database.Reconciler{Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Clock: r.clock}
	prober := newDatabaseProber(keeper, clock.RealClock{}, nil)
	prober.requeue = func(app types.NamespacedName) {
		obj := r.kind.New()
		obj.SetNamespace(app.Namespace)
		obj.SetName(app.Name)
		select {
		case probeEvents <- event.GenericEvent{Object: obj}:
		case <-prober.ctx.Done():
		}
	}
	r.databaseProber = prober
	requests := ctrlsource.Channel(probeEvents, &handler.EnqueueRequestForObject{})
	return ctrlsource.Func(func(ctx context.Context, q queue) error {
		prober.start(ctx)
		return requests.Start(ctx, q)
	})
}

// probeDatabases says of each database what its server says. A server that nobody can reach yet is
// not asked: its pod tells why.
func (r *reconciler[T]) probeDatabases(ctx context.Context, app T, owner desired.Owner, o *observed) (map[string]health.Result, error) {
	var out map[string]health.Result
	appKey, now := client.ObjectKeyFromObject(app), r.clock.Now()
	r.databaseProber.pruneComponents(appKey, o.components)
	for _, c := range o.components {
		if c.Database == nil {
			continue
		}
		if out == nil {
			out, o.serverVersions, o.startedImages = map[string]health.Result{}, map[string]string{}, map[string]string{}
		}
		pods, err := r.listPods(ctx, owner.Namespace, c)
		if err != nil {
			return nil, err
		}
		set, _ := o.children[c.Workload].(*appsv1.StatefulSet)
		if image := startedImage(c, set, pods); image != "" {
			o.startedImages[c.Name] = image
		}
		if c.Suspended || c.InvalidMessage != "" || c.Database.SchemaConflict != "" {
			continue // a visit writes: with hands off, or to data that is not meant, none is made
		}
		server := readyServerPod(c, pods)
		// A set of somebody else may have the name, and a server that is not ours to change.
		if set == nil || !metav1.IsControlledBy(set, app) || c.Data.Conflict != "" || server == nil {
			r.databaseProber.cancelPings(databaseID{appKey, c.Name})
			out[c.Name] = startingHealth(c, pods)
			continue
		}
		// Nothing else depends on who knows what. An operator that has just started learns from its first visit
		// whether a password is being replaced.
		consumersRolledOut, lagging := false, ""
		if r.databaseProber.isRotating(databaseID{appKey, c.Name}) {
			if lagging, err = r.laggingConsumer(ctx, owner, o, c); err != nil {
				return nil, err
			}
			consumersRolledOut = lagging == ""
		}
		db := databaseFor(owner, c, set, server)
		if consumersRolledOut {
			db.ConsumedBinding = o.bindingVersions[db.Binding]
		}
		key := probeKey{pod: server.UID, readySince: readySince(server), host: db.Host, statefulSetUID: set.UID, secretVersions: r.credentialVersions(ctx, owner, c), bindingVersion: o.bindingVersions[db.Binding], spec: db.Fingerprint(), consumersRolledOut: consumersRolledOut, consumersBindingVersion: db.ConsumedBinding}
		probe, known := r.databaseProber.latestProbe(databaseID{appKey, c.Name}, key, db, now)
		out[c.Name] = o.evaluateProbe(c, set, probe, known, lagging, now)
	}
	return out, nil
}

// evaluateProbe says what the last answer of a server means, if there is one.
func (o *observed) evaluateProbe(c desired.Component, set *appsv1.StatefulSet, probe probeState, known bool, lagging string, now time.Time) health.Result {
	if !known {
		o.markTransient(probe.startedAt.Add(probeGracePeriod), now)
		return progressingHealth("Database %s is asked whether its application gets in", c)
	}
	if cacheIsBehind(o.bindingVersions[c.Database.BindingSecret], probe.state.BindingVersion) { // what is rolled now would be rolled again
		if probe.key.bindingVersion == o.bindingVersions[c.Database.BindingSecret] { // and not deleted, or changed, by somebody since
			o.markTransient(probe.startedAt.Add(probeGracePeriod), now)
		}
		o.requeueNoLaterThan(now.Add(bindingLostAfter))
		return progressingHealth("What tells how to get into database %s has just been written", c)
	}
	o.requeueNoLaterThan(probe.nextAt)
	verdict := probeHealth(c, probe, lagging)
	if v := probe.state.Version; v.HasPatch && runsSpecImage(set, c) {
		o.serverVersions[c.Name] = v.String()
		verdict = health.Worst(verdict, versionHealth(c, v))
	}
	return verdict
}

// cacheIsBehind says whether the cache does not know yet what a visit has seen.
func cacheIsBehind(cached, probed string) bool {
	if probed == "" {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(cached, probed)
	return err != nil || c < 0
}

// startingHealth is what there is to say of a server that cannot be asked.
func startingHealth(c desired.Component, pods []*corev1.Pod) health.Result {
	for _, p := range pods {
		for _, s := range p.Status.ContainerStatuses {
			if p.DeletionTimestamp == nil && s.State.Running != nil && !s.Ready {
				return health.Result{Status: health.Progressing, Reason: appsapi.ReasonDatabaseStarting, Message: fmt.Sprintf(
					"The server of database %s does not let anybody in yet: it sets up an empty volume, recovers from a crash or upgrades its tables. "+
						"That may take its time, and for an hour nothing interrupts it; how far it is: kubectl logs -n %s %s", c.Workload.Name, p.Namespace, p.Name)}
			}
		}
	}
	return progressingHealth("Database %s has no server that can be asked", c)
}

// runsSpecImage says whether the server that was asked is of the image of the spec.
func runsSpecImage(set *appsv1.StatefulSet, c desired.Component) bool {
	return set.Spec.Template.Spec.Containers[0].Image == c.Database.Image && health.RolledOut(set)
}

// startedImage is that of a server that has been let near the data, whatever the spec says by now: from its first moment
// on it may have written to it, whether or not it ever lets anybody in.
func startedImage(c desired.Component, set *appsv1.StatefulSet, pods []*corev1.Pod) string {
	for _, p := range pods {
		if p.Name != serverPodName(c) {
			continue
		}
		if !readySince(p).IsZero() { // of those less is remembered
			if set != nil && health.RolledOut(set) {
				return set.Spec.Template.Spec.Containers[0].Image
			}
			return ""
		}
		for _, s := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
			if s.State.Running == nil && s.State.Terminated == nil && s.LastTerminationState.Terminated == nil {
				continue
			}
			for _, container := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
				if container.Name == s.Name && desired.IsServerContainer(container.Name) {
					return container.Image
				}
			}
		}
	}
	return ""
}

// serverPodName is the name of the pod with the server. Others may have its labels, if somebody copied them.
func serverPodName(c desired.Component) string { return c.Workload.Name + "-0" }

// readyServerPod is the pod that can be asked.
func readyServerPod(c desired.Component, pods []*corev1.Pod) *corev1.Pod {
	for _, p := range pods {
		if p.Name == serverPodName(c) && p.DeletionTimestamp == nil && p.Status.PodIP != "" && !readySince(p).IsZero() {
			return p
		}
	}
	return nil
}

func databaseFor(owner desired.Owner, c desired.Component, set *appsv1.StatefulSet, server *corev1.Pod) database.Database {
	d := database.Database{
		Namespace: owner.Namespace, Address: server.Status.PodIP, Host: c.Database.Host,
		Secret: c.Data.Secret, Binding: c.Database.BindingSecret, Labels: desired.BindingLabels(owner, c),
		// With its set it goes, and with no other.
		Owner: metav1ac.OwnerReference().WithAPIVersion(appsv1.SchemeGroupVersion.String()).WithKind("StatefulSet").
			WithName(set.Name).WithUID(set.UID),
		Schema: c.Database.Database, Rotation: c.Database.Rotation,
	}
	for _, k := range c.Data.Retained {
		d.LoggedInBefore = d.LoggedInBefore || k.Claim != nil && k.GetAnnotations()[appsapi.AnnotationSchema] != ""
	}
	for _, credential := range c.Data.Credentials {
		switch credential.Key {
		case mariadb.KeyRootPassword:
			d.RootCredential = credential
		case mariadb.KeyPassword:
			d.UserCredential = credential
		}
	}
	return d
}

// credentialVersions are those of the Secrets that a visit reads but for the binding, as the cache knows them: when one changes,
// the answer may.
func (r *reconciler[T]) credentialVersions(ctx context.Context, owner desired.Owner, c desired.Component) string {
	names := []string{c.Data.Secret}
	for _, credential := range c.Data.Credentials {
		if credential.SecretRef != nil {
			names = append(names, credential.SecretRef.Name)
		}
	}
	return fmt.Sprint(r.secretVersions(ctx, owner, names)) // sorted by name
}

// secretVersions are those of Secrets, as the cache knows them. One that cannot be read is as good as
// none: the visit says so.
func (r *reconciler[T]) secretVersions(ctx context.Context, owner desired.Owner, names []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		secret := managercache.PartialMetadata(desired.RefSecret)
		_ = r.client.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: name}, secret)
		out[name] = secret.ResourceVersion
	}
	return out
}

// probeHealth is what an answer means for a database; left is who keeps an old password from being struck out.
func probeHealth(c desired.Component, probe probeState, lagging string) health.Result {
	var refused *database.ConditionError
	switch {
	case errors.As(probe.err, &refused):
		return health.Result{Status: health.Degraded, Reason: refused.Reason, Message: refused.Message}
	case probe.err == nil && probe.state.ConnectionsExhausted:
		return health.Result{Status: health.Degraded, Reason: appsapi.ReasonDatabaseConnectionsExhausted, Message: fmt.Sprintf(
			"Database %s has no connection left for its applications: close some, or raise max_connections in config", c.Workload.Name)}
	case probe.err == nil && probe.state.AccountLimited:
		return connectionLimitHealth(c)
	case probe.err == nil && probe.state.Rotating:
		return health.Result{Status: health.Healthy, Reason: appsapi.ReasonRotating, Message: fmt.Sprintf(
			"Passwords of database %s are being replaced: it takes the old ones, too, until nobody is left who was told only those, as %s may be", c.Workload.Name, cmp.Or(lagging, "somebody"))}
	case probe.err == nil:
		return health.Result{Status: health.Healthy, Reason: appsapi.ReasonReconciled}
	}
	name := fmt.Sprintf("Database %s", c.Workload.Name)
	switch database.ErrorKindOf(probe.err) {
	case session.TooManyConnections:
		return health.Result{Status: health.Degraded, Reason: appsapi.ReasonDatabaseConnectionsExhausted, Message: name + " has no connection left, also none of those that are kept for the operator: " +
			"close some, or raise max_connections in config"}
	case session.UserConnectionLimit:
		return connectionLimitHealth(c)
	case session.Unreachable:
		return health.Result{Status: health.Degraded, Reason: appsapi.ReasonDatabaseUnresponsive, Message: name + " accepts connections and does not answer: look at its log, and whether a network policy lets the operator in"}
	case session.AccessDenied, session.StatementRejected:
		return health.Result{Status: health.Degraded, Reason: appsapi.ReasonDatabaseAccessDenied, Message: fmt.Sprintf("%s refuses what the operator has to do: %v", name, probe.err)}
	}
	return health.Result{Status: health.Progressing, Reason: appsapi.ReasonProgressing, Message: fmt.Sprintf("%s is asked again: %v", name, probe.err)}
}

// connectionLimitHealth says that the account of a database has no connection left, where others have.
func connectionLimitHealth(c desired.Component) health.Result {
	return health.Result{Status: health.Degraded, Reason: appsapi.ReasonDatabaseConnectionsExhausted, Message: fmt.Sprintf(
		"Account %s of database %s has as many connections as it may have: close some, or raise max_user_connections in config", c.Database.Database, c.Workload.Name)}
}

// versionHealth says whether a server is what the spec says.
func versionHealth(c desired.Component, actual mariadb.Version) health.Result {
	want, err := mariadb.ParseVersion(c.Database.Version)
	if err != nil || want.Series() == actual.Series() && (!want.HasPatch || want.Patch == actual.Patch) {
		return health.Result{Status: health.Healthy, Reason: appsapi.ReasonReconciled}
	}
	return health.Result{Status: health.Degraded, Reason: appsapi.ReasonVersionMismatch, Message: fmt.Sprintf(
		"Database %s is to be version %s, and its server says that it is %s: correct version, or choose an image of it", c.Workload.Name, c.Database.Version, actual)}
}

// readySince is when a pod became ready; zero when it is not.
func readySince(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

func progressingHealth(format string, c desired.Component) health.Result {
	return health.Result{Status: health.Progressing, Reason: appsapi.ReasonProgressing, Message: fmt.Sprintf(format, c.Workload.Name)}
}
