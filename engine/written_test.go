package engine

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func object(uid types.UID, version string) *appsapi.AppService {
	return &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid, ResourceVersion: version}}
}

func TestWritten(t *testing.T) {
	w := newWritten[*appsapi.AppService]()
	see := func(cached *appsapi.AppService, wantVersion string, wantReplaced types.UID) {
		t.Helper()
		last, ok := w.last(types.NamespacedName{Namespace: "shop", Name: "web"})
		got, replaced := w.newest(cached, last, ok)
		if got.ResourceVersion != wantVersion || replaced != wantReplaced {
			t.Errorf("got version %s, replaced %q, want %s, %q", got.ResourceVersion, replaced, wantVersion, wantReplaced)
		}
	}
	see(object("a", "9"), "9", "")
	w.remember(object("a", "10"))
	see(object("a", "9"), "10", "")  // the cache is behind our write
	see(object("a", "11"), "11", "") // and has caught up
	see(object("a", "9"), "9", "")   // so the write is forgotten
	w.remember(object("a", "10"))
	if w.echo(object("a", "9"), object("a", "11")) || !w.echo(object("a", "9"), object("a", "10")) {
		t.Error("an echo is our own write, and nothing else is")
	}
	// The cache catches up while it is being read: what it showed before is old all the same.
	w.remember(object("a", "10"))
	last, ok := w.last(types.NamespacedName{Namespace: "shop", Name: "web"})
	w.echo(object("a", "9"), object("a", "10"))
	if got, _ := w.newest(object("a", "9"), last, ok); got.ResourceVersion != "10" {
		t.Errorf("got version %s although 10 was written", got.ResourceVersion)
	}
	edited := object("a", "12")
	edited.Generation = 2
	w.remember(edited)
	if w.echo(object("a", "9"), edited) {
		t.Error("a write of ours on top of an edit that was not seen is no echo")
	}
	w.remember(object("a", "12"))
	see(object("b", "13"), "13", "a") // another object of the same name
	if uid := w.forget(types.NamespacedName{Namespace: "shop", Name: "web"}); uid != "b" {
		t.Errorf("forgot %q, want b", uid)
	}
	if len(w.objects)+len(w.names)+len(w.present) != 0 {
		t.Errorf("something is left: %v %v %v", w.objects, w.names, w.present)
	}
}
