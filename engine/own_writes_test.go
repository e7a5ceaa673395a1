package engine

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func appServiceVersion(uid types.UID, version string) *appsapi.AppService {
	return &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid, ResourceVersion: version}}
}

func TestOwnWrites(t *testing.T) {
	w := newOwnWrites[*appsapi.AppService]()
	check := func(cached *appsapi.AppService, wantVersion string, wantReplaced types.UID) {
		t.Helper()
		last, ok := w.lastWrite(types.NamespacedName{Namespace: "shop", Name: "web"})
		got, replaced := w.newest(cached, last, ok)
		if got.ResourceVersion != wantVersion || replaced != wantReplaced {
			t.Errorf("got version %s, replaced %q, want %s, %q", got.ResourceVersion, replaced, wantVersion, wantReplaced)
		}
	}
	check(appServiceVersion("a", "9"), "9", "")
	w.record(appServiceVersion("a", "10"))
	check(appServiceVersion("a", "9"), "10", "")  // the cache is behind our write
	check(appServiceVersion("a", "11"), "11", "") // and has caught up
	check(appServiceVersion("a", "9"), "9", "")   // so the write is forgotten
	w.record(appServiceVersion("a", "10"))
	if w.isOwnWrite(appServiceVersion("a", "9"), appServiceVersion("a", "11")) || !w.isOwnWrite(appServiceVersion("a", "9"), appServiceVersion("a", "10")) {
		t.Error("an echo is our own write, and nothing else is")
	}
	// The cache catches up while it is being read: what it showed before is old all the same.
	w.record(appServiceVersion("a", "10"))
	last, ok := w.lastWrite(types.NamespacedName{Namespace: "shop", Name: "web"})
	w.isOwnWrite(appServiceVersion("a", "9"), appServiceVersion("a", "10"))
	if got, _ := w.newest(appServiceVersion("a", "9"), last, ok); got.ResourceVersion != "10" {
		t.Errorf("got version %s although 10 was written", got.ResourceVersion)
	}
	edited := appServiceVersion("a", "12")
	edited.Generation = 2
	w.record(edited)
	if w.isOwnWrite(appServiceVersion("a", "9"), edited) {
		t.Error("a write of ours on top of an edit that was not seen is no echo")
	}
	w.record(appServiceVersion("a", "12"))
	check(appServiceVersion("b", "13"), "13", "a") // another object of the same name
	if uid := w.forget(types.NamespacedName{Namespace: "shop", Name: "web"}); uid != "b" {
		t.Errorf("forgot %q, want b", uid)
	}
	if len(w.objects)+len(w.uidByName)+len(w.verified) != 0 {
		t.Errorf("something is left: %v %v %v", w.objects, w.uidByName, w.verified)
	}
}
