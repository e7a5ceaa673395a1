package engine

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/managercache"
	"github.com/holdfast-dev/holdfast/internal/transport"
)

// ManagerOptions configure a manager. Kinds and Manager.Scheme are required.
type ManagerOptions struct {
	// Kinds has one empty object of each kind that the manager runs.
	Kinds []Object
	// Namespaces are the namespaces that are watched; none means all.
	Namespaces []string
	// LabelPrefix is the prefix of the labels and annotations on children, a domain that you own.
	// The default is apps.holdfast.dev. Do not change it later: the operator would not recognize
	// its objects.
	LabelPrefix string
	// FieldManager is the field manager of children. The field manager of the status has the suffix
	// -status. The default is holdfast. Do not change it later: fields would stay owned by the old
	// one.
	FieldManager string
	// Finalizer is added to applications that are deleted in order. The default is
	// <LabelPrefix>/ordered-deletion.
	Finalizer string
	// Manager has everything else: scheme, leader election, metrics. MapperProvider and NewCache
	// are set by NewManager.
	Manager ctrl.Options
}

// NewManager returns a manager as [Setup] needs it. It starts without an API server and waits for
// one, it caches only what the engine reads, and its readiness check passes once the caches are in
// sync, also on a standby replica.
func NewManager(cfg *rest.Config, o ManagerOptions) (ctrl.Manager, error) {
	keys, err := o.keys()
	if err != nil {
		return nil, err
	}
	var kinds []client.Object
	for _, k := range o.Kinds {
		kinds = append(kinds, k)
	}
	mapper, err := managercache.NewRESTMapper(o.Manager.Scheme, kinds...)
	if err != nil {
		return nil, err
	}
	options := o.Manager
	options.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
	options.NewCache = managercache.New(keys, o.Namespaces...)
	mgr, err := ctrl.NewManager(transport.RetryInformers(cfg), options)
	if err != nil {
		return nil, fmt.Errorf("create manager: %w", err)
	}
	ready, err := managercache.NewReadyzCheck(mgr, kinds...)
	if err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("caches", ready)
}

// keys returns the keys for the options.
func (o ManagerOptions) keys() (*appsapi.Keys, error) {
	prefix := cmp.Or(o.LabelPrefix, appsapi.DefaultKeys.Prefix)
	if problems := validation.IsDNS1123Subdomain(prefix); len(problems) > 0 {
		return nil, fmt.Errorf("option LabelPrefix %q is not a domain: %s", prefix, strings.Join(problems, "; "))
	}
	keys := appsapi.NewKeys(prefix, cmp.Or(o.FieldManager, appsapi.DefaultKeys.FieldManager))
	keys.Finalizer = cmp.Or(o.Finalizer, keys.Finalizer)
	if !strings.Contains(keys.Finalizer, "/") || len(validation.IsQualifiedName(keys.Finalizer)) > 0 {
		return nil, fmt.Errorf("option Finalizer %q does not have the form example.com/name", keys.Finalizer)
	}
	// The longer of the two field managers.
	if problems := metav1validation.ValidateFieldManager(keys.FieldManagerStatus, field.NewPath("FieldManager")); len(problems) > 0 {
		return nil, problems.ToAggregate()
	}
	return keys, nil
}
