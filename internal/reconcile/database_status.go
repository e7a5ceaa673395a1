package reconcile

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
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/database"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// databases observes the database servers of applications.
type databases struct {
	cache     client.Reader
	apiReader client.Reader
	clock     clock.PassiveClock
	prober    *database.Prober
}

// Observe sets the health of each database to the latest result of its probe. A server that is not
// ready is not probed: the status of its pod explains why it is not ready.
func (d *databases) Observe(ctx context.Context, s *execute.Scope) error {
	app := client.ObjectKeyFromObject(s.App)
	d.prober.PruneComponents(app, s.Components)
	for _, c := range s.Components {
		if c.Database == nil {
			continue
		}
		if s.DatabaseHealth == nil {
			s.DatabaseHealth, s.ServerVersions, s.StartedImages = map[string]health.Result{}, map[string]string{}, map[string]string{}
		}
		pods, err := execute.ListPods(ctx, d.cache, s.Owner.Namespace, c.WorkloadID)
		if err != nil {
			return err
		}
		set, _ := s.Children[c.Workload].(*appsv1.StatefulSet)
		if image := startedImage(c, set, pods); image != "" {
			s.StartedImages[c.Name] = image
		}
		if c.Suspended || c.InvalidMessage != "" || c.Database.SchemaConflict != "" {
			continue // a probe writes to the database: not allowed while suspended, or if the data may be wrong
		}
		if s.DatabaseHealth[c.Name], err = d.observeServer(ctx, s, c, set, pods); err != nil {
			return err
		}
	}
	return nil
}

// observeServer returns the health of one database.
func (d *databases) observeServer(ctx context.Context, s *execute.Scope, c desired.Component, set *appsv1.StatefulSet, pods []*corev1.Pod) (health.Result, error) {
	id, server, now := database.ID{App: client.ObjectKeyFromObject(s.App), Component: c.Name}, readyServerPod(c, pods), d.clock.Now()
	// A StatefulSet of another owner may have the name; its server must not be changed.
	if set == nil || !metav1.IsControlledBy(set, s.App) || c.Data.Conflict != "" || server == nil {
		d.prober.CancelPings(id)
		return startingHealth(c, pods), nil
	}
	// Clients matter only during a rotation. After a restart of the operator, the first probe
	// detects whether a rotation is in progress.
	consumersRolledOut, lagging := false, ""
	if d.prober.IsRotating(id) {
		var err error
		if lagging, err = d.laggingConsumer(ctx, s, c); err != nil {
			return health.Result{}, err
		}
		consumersRolledOut = lagging == ""
	}
	db := databaseFor(s.Owner, c, set, server)
	if consumersRolledOut {
		db.ConsumedBinding = s.BindingVersions[db.Binding]
	}
	key := database.ProbeKey{
		Pod: server.UID, ReadySince: readySince(server), Host: db.Host, StatefulSetUID: set.UID, Spec: db.Fingerprint(),
		RotationRequestedAt: db.RotationRequestedAt,
		SecretVersions:      d.credentialVersions(ctx, s.Owner, c), BindingVersion: s.BindingVersions[db.Binding],
		ConsumersRolledOut: consumersRolledOut, ConsumersBindingVersion: db.ConsumedBinding,
	}
	probe, known := d.prober.Latest(id, key, db, now)
	return evaluateProbe(&s.Observed, c, set, probe, known, lagging, now), nil
}

// evaluateProbe derives the health of a database from its latest probe, if there is one.
func evaluateProbe(o *execute.Observed, c desired.Component, set *appsv1.StatefulSet, probe database.Probe, known bool, lagging string, now time.Time) health.Result {
	if !known {
		o.MarkTransient(probe.StartedAt.Add(database.ProbeGracePeriod), now)
		return progressingHealth("Checking that the application account can log in to database %s", c)
	}
	cached := o.BindingVersions[c.Database.BindingSecret]
	if database.CacheIsBehind(cached, probe.State.BindingVersion) { // pods replaced now would be replaced a second time
		if probe.Key.BindingVersion == cached { // the binding was not changed or deleted since the probe
			o.MarkTransient(probe.StartedAt.Add(database.ProbeGracePeriod), now)
		}
		o.RequeueNoLaterThan(now.Add(database.BindingLostAfter))
		return progressingHealth("Waiting for the updated binding Secret of database %s to appear in the cache", c)
	}
	o.RequeueNoLaterThan(probe.NextAt)
	result := probeHealth(c, probe, lagging)
	if requested := c.Database.RotationRequestedAt; result.Reason == appsapi.ReasonReconciled && requested != "" && requested != probe.Key.RotationRequestedAt {
		result = health.Result{Status: health.Healthy, Reason: appsapi.ReasonRotating, Message: fmt.Sprintf(
			"Rotating passwords of database %s: the rotation was requested and has not started yet", c.Workload.Name)}
	}
	if v := probe.State.Version; v.HasPatch && runsSpecImage(set, c) {
		o.ServerVersions[c.Name] = v.String()
		result = health.Worst(result, versionHealth(c, v))
	}
	return result
}

// startingHealth is the health of a database whose server cannot be probed.
func startingHealth(c desired.Component, pods []*corev1.Pod) health.Result {
	for _, p := range pods {
		for _, s := range p.Status.ContainerStatuses {
			if p.DeletionTimestamp == nil && s.State.Running != nil && !s.Ready {
				return health.Result{Status: health.Progressing, Reason: appsapi.ReasonDatabaseStarting, Message: fmt.Sprintf(
					"The server of database %s does not accept logins yet: "+
						"it initializes an empty volume, recovers from a crash or upgrades its tables. "+
						"The startup probe allows one hour. To follow the progress: kubectl logs -n %s %s",
					c.Workload.Name, p.Namespace, p.Name)}
			}
		}
	}
	return progressingHealth("Waiting for the server Pod of database %s to become ready", c)
}

// runsSpecImage reports whether the server runs the image of the spec.
func runsSpecImage(set *appsv1.StatefulSet, c desired.Component) bool {
	return set.Spec.Template.Spec.Containers[0].Image == c.Database.Image && health.RolledOut(set)
}

// startedImage returns the image of a server that has started on the volume, even if the spec has
// changed since. A server may write to the volume before it accepts logins.
func startedImage(c desired.Component, set *appsv1.StatefulSet, pods []*corev1.Pod) string {
	for _, p := range pods {
		if p.Name != serverPodName(c) {
			continue
		}
		if !readySince(p).IsZero() { // a ready pod counts only once the StatefulSet is rolled out
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

// serverPodName is the name of the server pod. Its labels do not identify it: users may copy them.
func serverPodName(c desired.Component) string { return c.Workload.Name + "-0" }

// readyServerPod returns the pod that can be probed, or nil.
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
		ServerName: c.Data.ServerName, Secret: c.Data.Secret, Binding: c.Database.BindingSecret, Labels: desired.BindingLabels(owner, c),
		// The binding is deleted together with this StatefulSet.
		Owner: metav1ac.OwnerReference().WithAPIVersion(appsv1.SchemeGroupVersion.String()).WithKind("StatefulSet").
			WithName(set.Name).WithUID(set.UID),
		Schema: c.Database.Database, Rotation: c.Database.Rotation, RotationRequestedAt: c.Database.RotationRequestedAt,
	}
	for _, k := range c.Data.Retained {
		d.LoggedInBefore = d.LoggedInBefore || k.Claim != nil && k.GetAnnotations()[owner.Keys.Schema] != ""
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

// credentialVersions returns the resourceVersions of the Secrets that a probe reads, except for the
// binding: when one of these Secrets changes, the result of a probe may change.
func (d *databases) credentialVersions(ctx context.Context, owner desired.Owner, c desired.Component) string {
	names := []string{c.Data.Secret}
	for _, credential := range c.Data.Credentials {
		if credential.SecretRef != nil {
			names = append(names, credential.SecretRef.Name)
		}
	}
	return fmt.Sprint(execute.SecretVersions(ctx, d.cache, owner.Namespace, names)) // sorted by name
}

// probeHealth derives the health of a database from a probe. lagging is the client that may still
// use an old password.
func probeHealth(c desired.Component, probe database.Probe, lagging string) health.Result {
	var refused *database.ConditionError
	switch {
	case errors.As(probe.Err, &refused):
		return health.Result{Status: health.Degraded, Reason: refused.Reason, Message: refused.Message}
	case probe.Err == nil && probe.State.ConnectionsExhausted:
		return health.Result{Status: health.Degraded, Reason: appsapi.ReasonDatabaseConnectionsExhausted, Message: fmt.Sprintf(
			"Database %s has no free connections for applications: close some, or raise max_connections in config", c.Workload.Name)}
	case probe.Err == nil && probe.State.AccountLimited:
		return connectionLimitHealth(c)
	case probe.Err == nil && probe.State.Rotating:
		return health.Result{Status: health.Healthy, Reason: appsapi.ReasonRotating, Message: fmt.Sprintf(
			"Rotating passwords of database %s: the old password stays valid until %s has restarted with the new one",
			c.Workload.Name, cmp.Or(lagging, "every client"))}
	case probe.Err == nil:
		return health.Result{Status: health.Healthy, Reason: appsapi.ReasonReconciled}
	}
	name := fmt.Sprintf("Database %s", c.Workload.Name)
	switch database.ErrorKindOf(probe.Err) {
	case session.TooManyConnections:
		return health.Result{Status: health.Degraded, Reason: appsapi.ReasonDatabaseConnectionsExhausted, Message: name +
			" has no free connections, including those reserved for the operator: close some, or raise max_connections in config"}
	case session.UserConnectionLimit:
		return connectionLimitHealth(c)
	case session.Unreachable:
		return health.Result{Status: health.Degraded, Reason: appsapi.ReasonDatabaseUnresponsive, Message: name +
			" accepts connections but does not respond: check its log, and check that NetworkPolicies allow traffic from the operator"}
	case session.UntrustedServer:
		return health.Result{Status: health.Degraded, Reason: appsapi.ReasonDatabaseCertificateInvalid, Message: fmt.Sprintf(
			"%s has no valid TLS certificate, so the operator sent no password: %v. Check that no option in config disables TLS, then restart the server",
			name, probe.Err)}
	case session.ProtocolViolation:
		return health.Result{Status: health.Degraded, Reason: appsapi.ReasonDatabaseProtocolViolation, Message: fmt.Sprintf(
			"%s does not behave like a MariaDB server, so the operator disconnected: %v. Check that image %s is a MariaDB image from a trusted source",
			name, probe.Err, c.Database.Image)}
	case session.AccessDenied, session.StatementRejected:
		return health.Result{Status: health.Degraded, Reason: appsapi.ReasonDatabaseAccessDenied, Message: fmt.Sprintf(
			"%s rejects a login or statement of the operator: %v", name, probe.Err)}
	}
	return health.Result{Status: health.Progressing, Reason: appsapi.ReasonProgressing, Message: fmt.Sprintf(
		"%s could not be checked; retrying: %v", name, probe.Err)}
}

// connectionLimitHealth reports that the application account has reached its connection limit.
func connectionLimitHealth(c desired.Component) health.Result {
	return health.Result{Status: health.Degraded, Reason: appsapi.ReasonDatabaseConnectionsExhausted, Message: fmt.Sprintf(
		"Account %s of database %s has reached its connection limit: close some connections, or raise max_user_connections in config",
		c.Database.Database, c.Workload.Name)}
}

// versionHealth compares the version of the server with the version in the spec.
func versionHealth(c desired.Component, actual mariadb.Version) health.Result {
	want, err := mariadb.ParseVersion(c.Database.Version)
	if err != nil || want.Series() == actual.Series() && (!want.HasPatch || want.Patch == actual.Patch) {
		return health.Result{Status: health.Healthy, Reason: appsapi.ReasonReconciled}
	}
	return health.Result{Status: health.Degraded, Reason: appsapi.ReasonVersionMismatch, Message: fmt.Sprintf(
		"Database %s declares version %s, but its server reports %s: change field version in the spec, or use an image of the declared version",
		c.Workload.Name, c.Database.Version, actual)}
}

// readySince returns when a pod became ready; zero if it is not ready.
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
