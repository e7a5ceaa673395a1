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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/database"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
)

// askDatabases lets servers be asked, and wakes the applications whose servers have answered.
func (r *reconciler[T]) askDatabases(mgr ctrl.Manager) ctrlsource.Source {
	answers := make(chan event.GenericEvent, visitsAt)
	keeper := &database.Keeper{Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Clock: r.clock}
	r.databases = newDatabases(keeper, func(app types.NamespacedName) {
		obj := r.kind.New()
		obj.SetNamespace(app.Namespace)
		obj.SetName(app.Name)
		answers <- event.GenericEvent{Object: obj}
	})
	return ctrlsource.Channel(answers, &handler.EnqueueRequestForObject{})
}

// consult says of each database what its server says. A server that nobody can reach yet is
// not asked: its pod tells why.
func (r *reconciler[T]) consult(ctx context.Context, app T, owner desired.Owner, o *observed) (map[string]health.Verdict, error) {
	var out map[string]health.Verdict
	who, now := client.ObjectKeyFromObject(app), r.clock.Now()
	r.databases.keep(who, o.components)
	for _, c := range o.components {
		if c.Database == nil {
			continue
		}
		if out == nil {
			out, o.serverVersions, o.startedServers = map[string]health.Verdict{}, map[string]string{}, map[string]string{}
		}
		pods, err := r.pods(ctx, owner.Namespace, c)
		if err != nil {
			return nil, err
		}
		set, _ := o.seen[c.Workload].(*appsv1.StatefulSet)
		if image := startedImage(c, set, pods); image != "" {
			o.startedServers[c.Name] = image
		}
		if c.Suspended || c.Invalid != "" || c.Database.Conflict != "" {
			continue // a visit writes: with hands off, or to data that is not meant, none is made
		}
		server := serving(c, pods)
		// A set of somebody else may have the name, and a server that is not ours to change.
		if set == nil || !metav1.IsControlledBy(set, app) || c.Data.Refused != "" || server == nil {
			r.databases.silence(visited{who, c.Name})
			out[c.Name] = starting(c, pods)
			continue
		}
		// Nothing else depends on who knows what. An operator that has just started learns from its first visit
		// whether a password is being replaced.
		rolled, left := false, ""
		if r.databases.rotating(visited{who, c.Name}) {
			if left, err = r.behind(ctx, owner, o, c); err != nil {
				return nil, err
			}
			rolled = left == ""
		}
		db := databaseOf(owner, c, set, server)
		if rolled {
			db.Known = o.bindings[db.Binding]
		}
		q := question{pod: server.UID, since: readySince(server), host: db.Host, set: set.UID, versions: r.versions(ctx, owner, c), binding: o.bindings[db.Binding], wants: db.Wants(), rolled: rolled, told: db.Known}
		answer, answered := r.databases.ask(visited{who, c.Name}, q, db, now)
		out[c.Name] = o.hear(c, set, answer, answered, left, now)
	}
	return out, nil
}

// hear says what the last answer of a server means, if there is one.
func (o *observed) hear(c desired.Component, set *appsv1.StatefulSet, answer visit, answered bool, left string, now time.Time) health.Verdict {
	if !answered {
		o.passing(answer.begun.Add(moment), now)
		return progressing("Database %s is asked whether its application gets in", c)
	}
	if older(o.bindings[c.Database.Binding], answer.state.Binding) { // what is rolled now would be rolled again
		if answer.asked.binding == o.bindings[c.Database.Binding] { // and not deleted, or changed, by somebody since
			o.passing(answer.begun.Add(moment), now)
		}
		o.sooner(now.Add(lostAfter))
		return progressing("What tells how to get into database %s has just been written", c)
	}
	o.sooner(answer.again)
	verdict := verdictOf(c, answer, left)
	if v := answer.state.Version; v.Exact && runsImage(set, c) {
		o.serverVersions[c.Name] = v.String()
		verdict = health.Worst(verdict, versionOf(c, v))
	}
	return verdict
}

// older says whether the cache does not know yet what a visit has seen.
func older(cached, seen string) bool {
	if seen == "" {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(cached, seen)
	return err != nil || c < 0
}

// starting is what there is to say of a server that cannot be asked.
func starting(c desired.Component, pods []*corev1.Pod) health.Verdict {
	for _, p := range pods {
		for _, s := range p.Status.ContainerStatuses {
			if p.DeletionTimestamp == nil && s.State.Running != nil && !s.Ready {
				return health.Verdict{Status: health.Progressing, Reason: appsapi.ReasonDatabaseStarting, Message: fmt.Sprintf(
					"The server of database %s does not let anybody in yet: it sets up an empty volume, recovers from a crash or upgrades its tables. "+
						"That may take its time, and for an hour nothing interrupts it; how far it is: kubectl logs -n %s %s", c.Workload.Name, p.Namespace, p.Name)}
			}
		}
	}
	return progressing("Database %s has no server that can be asked", c)
}

// runsImage says whether the server that was asked is of the image of the spec.
func runsImage(set *appsv1.StatefulSet, c desired.Component) bool {
	return set.Spec.Template.Spec.Containers[0].Image == c.Database.Image && health.RolledOut(set)
}

// startedImage is that of a server that has been let near the data, whatever the spec says by now: from its first moment
// on it may have written to it, whether or not it ever lets anybody in.
func startedImage(c desired.Component, set *appsv1.StatefulSet, pods []*corev1.Pod) string {
	for _, p := range pods {
		if p.Name != serverName(c) {
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
			for _, is := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
				if is.Name == s.Name && desired.RunsServer(is.Name) {
					return is.Image
				}
			}
		}
	}
	return ""
}

// serverName is the name of the pod with the server. Others may have its labels, if somebody copied them.
func serverName(c desired.Component) string { return c.Workload.Name + "-0" }

// serving is the pod that can be asked.
func serving(c desired.Component, pods []*corev1.Pod) *corev1.Pod {
	for _, p := range pods {
		if p.Name == serverName(c) && p.DeletionTimestamp == nil && p.Status.PodIP != "" && !readySince(p).IsZero() {
			return p
		}
	}
	return nil
}

func databaseOf(owner desired.Owner, c desired.Component, set *appsv1.StatefulSet, server *corev1.Pod) database.Database {
	d := database.Database{
		Namespace: owner.Namespace, Address: server.Status.PodIP, Host: c.Database.Host,
		Secret: c.Data.Secret, Binding: c.Database.Binding, Labels: desired.BindingLabels(owner, c),
		// With its set it goes, and with no other.
		Owner: metav1ac.OwnerReference().WithAPIVersion(appsv1.SchemeGroupVersion.String()).WithKind("StatefulSet").
			WithName(set.Name).WithUID(set.UID),
		Schema: c.Database.Database, Rotation: c.Database.Rotation,
	}
	for _, k := range c.Data.Kept {
		d.Opened = d.Opened || k.Claim != nil && k.GetAnnotations()[appsapi.AnnotationSchema] != ""
	}
	for _, credential := range c.Data.Credentials {
		switch credential.Key {
		case mariadb.KeyRootPassword:
			d.Root = credential
		case mariadb.KeyPassword:
			d.User = credential
		}
	}
	return d
}

// versions are those of the Secrets that a visit reads but for the binding, as the cache knows them: when one changes,
// the answer may.
func (r *reconciler[T]) versions(ctx context.Context, owner desired.Owner, c desired.Component) string {
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
		secret := sourceMetadata(desired.RefSecret)
		_ = r.client.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: name}, secret)
		out[name] = secret.ResourceVersion
	}
	return out
}

// verdictOf is what an answer means for a database; left is who keeps an old password from being struck out.
func verdictOf(c desired.Component, answer visit, left string) health.Verdict {
	var refused *database.Refusal
	switch {
	case errors.As(answer.err, &refused):
		return health.Verdict{Status: health.Degraded, Reason: refused.Reason, Message: refused.Why}
	case answer.err == nil && answer.state.Full:
		return health.Verdict{Status: health.Degraded, Reason: appsapi.ReasonDatabaseFull, Message: fmt.Sprintf(
			"Database %s has no connection left for its applications: close some, or raise max_connections in config", c.Workload.Name)}
	case answer.err == nil && answer.state.Limited:
		return limited(c)
	case answer.err == nil && answer.state.Rotating:
		return health.Verdict{Status: health.Healthy, Reason: appsapi.ReasonRotating, Message: fmt.Sprintf(
			"Passwords of database %s are being replaced: it takes the old ones, too, until nobody is left who was told only those, as %s may be", c.Workload.Name, cmp.Or(left, "somebody"))}
	case answer.err == nil:
		return health.Verdict{Status: health.Healthy, Reason: appsapi.ReasonReconciled}
	}
	name := fmt.Sprintf("Database %s", c.Workload.Name)
	switch database.Trouble(answer.err) {
	case session.Full:
		return health.Verdict{Status: health.Degraded, Reason: appsapi.ReasonDatabaseFull, Message: name + " has no connection left, also none of those that are kept for the operator: " +
			"close some, or raise max_connections in config"}
	case session.Limited:
		return limited(c)
	case session.Silent:
		return health.Verdict{Status: health.Degraded, Reason: appsapi.ReasonDatabaseSilent, Message: name + " accepts connections and does not answer: look at its log, and whether a network policy lets the operator in"}
	case session.Denied, session.Refused:
		return health.Verdict{Status: health.Degraded, Reason: appsapi.ReasonDatabaseRefuses, Message: fmt.Sprintf("%s refuses what the operator has to do: %v", name, answer.err)}
	}
	return health.Verdict{Status: health.Progressing, Reason: appsapi.ReasonProgressing, Message: fmt.Sprintf("%s is asked again: %v", name, answer.err)}
}

// limited says that the account of a database has no connection left, where others have.
func limited(c desired.Component) health.Verdict {
	return health.Verdict{Status: health.Degraded, Reason: appsapi.ReasonDatabaseFull, Message: fmt.Sprintf(
		"Account %s of database %s has as many connections as it may have: close some, or raise max_user_connections in config", c.Database.Database, c.Workload.Name)}
}

// versionOf says whether a server is what the spec says.
func versionOf(c desired.Component, is mariadb.Version) health.Verdict {
	want, err := mariadb.ParseVersion(c.Database.Version)
	if err != nil || want.Series() == is.Series() && (!want.Exact || want.Patch == is.Patch) {
		return health.Verdict{Status: health.Healthy, Reason: appsapi.ReasonReconciled}
	}
	return health.Verdict{Status: health.Degraded, Reason: appsapi.ReasonVersionMismatch, Message: fmt.Sprintf(
		"Database %s is to be version %s, and its server says that it is %s: correct version, or choose an image of it", c.Workload.Name, c.Database.Version, is)}
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

func progressing(format string, c desired.Component) health.Verdict {
	return health.Verdict{Status: health.Progressing, Reason: appsapi.ReasonProgressing, Message: fmt.Sprintf(format, c.Workload.Name)}
}
