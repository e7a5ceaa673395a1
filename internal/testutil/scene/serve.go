package scene

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// server answers reads from scenes. It knows nothing of what an API server does beyond that:
// how verbs behave is tested on a real one, and here what they print.
type server struct {
	objects map[schema.GroupResource][]*unstructured.Unstructured
	unread  []string // resources
}

// Env is what a verb runs in that reads these scenes at the time Now.
func Env(t testing.TB, scenes ...*Scene) *cli.Env {
	s := &server{objects: map[schema.GroupResource][]*unstructured.Unstructured{}}
	for _, scene := range scenes {
		s.keep(scene.App)
		for _, o := range scene.Objects {
			s.keep(o)
		}
		for _, kind := range scene.Unread {
			s.unread = append(s.unread, resourceOf(schema.GroupVersionKind{Kind: kind}).Resource)
		}
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	flags := genericclioptions.NewConfigFlags(false)
	namespace, none := Namespace, "/dev/null"
	flags.APIServer, flags.Namespace, flags.KubeConfig = &h.URL, &namespace, &none
	return &cli.Env{Getter: flags, Version: "test", Colour: "never", Now: func() time.Time { return Now }}
}

func resourceOf(kind schema.GroupVersionKind) schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return plural
}

func (s *server) keep(o runtime.Object) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	must(err)
	r := resourceOf(KindOf(o)).GroupResource()
	s.objects[r] = append(s.objects[r], &unstructured.Unstructured{Object: content})
}

// ServeHTTP answers /api/v1/... and /apis/group/version/..., of which both may go on with
// namespaces/x/, a resource, and a name.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var at schema.GroupResource
	if parts[0] == "apis" {
		at.Group, parts = parts[1], parts[1:]
	}
	parts = parts[2:]
	namespace := ""
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	at.Resource = parts[0]
	if slices.Contains(s.unread, at.Resource) {
		answer(w, http.StatusForbidden, status(http.StatusForbidden, metav1.StatusReasonForbidden, at.String()+" is forbidden"))
		return
	}
	if len(parts) > 1 {
		for _, o := range s.objects[at] {
			if o.GetName() == parts[1] && o.GetNamespace() == namespace {
				answer(w, http.StatusOK, o.Object)
				return
			}
		}
		answer(w, http.StatusNotFound, status(http.StatusNotFound, metav1.StatusReasonNotFound, at.String()+" not found"))
		return
	}
	wanted, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	must(err)
	field, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	must(err)
	items := []any{}
	for _, o := range s.objects[at] {
		if (namespace == "" || o.GetNamespace() == namespace) && wanted.Matches(labels.Set(o.GetLabels())) && field.Matches(fieldsOf(o)) {
			items = append(items, o.Object)
		}
	}
	// Without a kind: the reader knows what it asked for.
	answer(w, http.StatusOK, map[string]any{"metadata": map[string]any{}, "items": items})
}

// fieldsOf are those that the plugin selects by.
func fieldsOf(o *unstructured.Unstructured) fields.Set {
	set := fields.Set{"metadata.name": o.GetName()}
	about, _, _ := unstructured.NestedStringMap(o.Object, "involvedObject")
	for k, v := range about {
		set["involvedObject."+k] = v
	}
	return set
}

func status(code int32, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // who went away does not read it
}
