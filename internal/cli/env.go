// Package cli is what the verbs of the plugin share: the cluster as the user's kubeconfig
// reaches it, the applications in it, and how answers are printed. Each verb has a folder
// of its own below.
//
// Safety rule: it reads with the rights of the caller and writes only objects of our own
// kinds. No value of a Secret is ever printed.
package cli

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Env is what a verb runs in.
type Env struct {
	// Getter reaches the cluster; its flags are those of kubectl.
	Getter genericclioptions.RESTClientGetter
	// Version is that of the plugin.
	Version string
	// Colour is auto, always or never.
	Colour string
	// Now is the time that ages are counted from.
	Now func() time.Time
	// Person says whether somebody sits at an input and can be asked; nil means at a terminal.
	Person func(in io.Reader) bool
}

// Namespace is the one that the user works in.
func (e *Env) Namespace() (string, error) {
	ns, _, err := e.Getter.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig: %w; choose another one with --kubeconfig", err)
	}
	return ns, nil
}

// Terminal is where an answer goes.
func (e *Env) Terminal(out io.Writer) Terminal { return NewTerminal(out, e.Colour) }

// Config is how the API server is reached.
func (e *Env) Config() (*rest.Config, error) {
	c, err := e.Getter.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w; choose another one with --kubeconfig or --context", err)
	}
	c = rest.CopyConfig(c)
	c.UserAgent = "kubectl-holdfast/" + e.Version
	// A person waits: a verb asks a few times and is then gone. The API server's own
	// fairness is the limit, as for kubectl.
	c.QPS = -1
	return c, nil
}

// Client reads and writes the kinds that an application is made of. It does not ask the API
// server first which kinds there are: that would take longer than most answers.
func (e *Env) Client() (client.Client, error) {
	c, err := e.Config()
	if err != nil {
		return nil, err
	}
	return NewClient(c, nil)
}

// Watcher is a client that also tells what happens.
func (e *Env) Watcher() (client.WithWatch, error) {
	c, err := e.Config()
	if err != nil {
		return nil, err
	}
	return NewWatchClient(c)
}

// silence keeps the library from complaining, after half a minute, that nobody wants its log.
var silence = sync.OnceFunc(func() { log.SetLogger(logr.Discard()) })

// NewClient makes a client that knows its kinds already. A nil http.Client means a new one.
func NewClient(c *rest.Config, over *http.Client) (client.Client, error) {
	silence()
	scheme := Scheme()
	return client.New(c, client.Options{Scheme: scheme, Mapper: mapper(scheme), HTTPClient: over})
}

// NewWatchClient makes a client that can also watch.
func NewWatchClient(c *rest.Config) (client.WithWatch, error) {
	silence()
	scheme := Scheme()
	return client.NewWithWatch(c, client.Options{Scheme: scheme, Mapper: mapper(scheme)})
}

// Scheme knows the kinds that an application is made of.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsapi.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // cannot fail
		}
	}
	return scheme
}

// Kinds that are known without asking.
var (
	groups = []schema.GroupVersion{
		appsapi.GroupVersion, corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion,
		autoscalingv2.SchemeGroupVersion, policyv1.SchemeGroupVersion, networkingv1.SchemeGroupVersion,
		discoveryv1.SchemeGroupVersion, storagev1.SchemeGroupVersion,
	}
	clusterWide = map[string]bool{"Node": true, "Namespace": true, "PersistentVolume": true, "StorageClass": true, "IngressClass": true, "VolumeAttachment": true}
)

func mapper(scheme *runtime.Scheme) meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, gv := range groups {
		for kind := range scheme.KnownTypes(gv) {
			scope := meta.RESTScopeNamespace
			if clusterWide[kind] {
				scope = meta.RESTScopeRoot
			}
			m.Add(gv.WithKind(kind), scope)
		}
	}
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"},
		{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"},
	} {
		m.Add(gvk, meta.RESTScopeNamespace)
	}
	return m
}
