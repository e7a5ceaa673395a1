package execute

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
	w := NewOwnWrites()
	check := func(cached *appsapi.AppService, wantVersion string, wantReplaced types.UID) {
		t.Helper()
		last := w.LastWrite(types.NamespacedName{Namespace: "shop", Name: "web"})
		got, replaced := w.Newest(cached, last)
		if got.GetResourceVersion() != wantVersion || replaced != wantReplaced {
			t.Errorf("got version %s, replaced %q, want %s, %q", got.GetResourceVersion(), replaced, wantVersion, wantReplaced)
		}
	}
	check(appServiceVersion("a", "9"), "9", "")
	w.Record(appServiceVersion("a", "10"))
	check(appServiceVersion("a", "9"), "10", "")  // the cache is behind our write
	check(appServiceVersion("a", "11"), "11", "") // and has caught up
	check(appServiceVersion("a", "9"), "9", "")   // so the write is forgotten
	w.Record(appServiceVersion("a", "10"))
	if w.IsOwnWrite(appServiceVersion("a", "9"), appServiceVersion("a", "11")) || !w.IsOwnWrite(appServiceVersion("a", "9"), appServiceVersion("a", "10")) {
		t.Error("only an update with exactly our write must count as our own write")
	}
	// The cache catches up while it is being read: the cached object is still outdated.
	w.Record(appServiceVersion("a", "10"))
	last := w.LastWrite(types.NamespacedName{Namespace: "shop", Name: "web"})
	w.IsOwnWrite(appServiceVersion("a", "9"), appServiceVersion("a", "10"))
	if got, _ := w.Newest(appServiceVersion("a", "9"), last); got.GetResourceVersion() != "10" {
		t.Errorf("got version %s although 10 was written", got.GetResourceVersion())
	}
	edited := appServiceVersion("a", "12")
	edited.Generation = 2
	w.Record(edited)
	if w.IsOwnWrite(appServiceVersion("a", "9"), edited) {
		t.Error("our write on top of an unobserved edit must not count as our own write")
	}
	w.Record(appServiceVersion("a", "12"))
	check(appServiceVersion("b", "13"), "13", "a") // another object of the same name
	if uid := w.Forget(types.NamespacedName{Namespace: "shop", Name: "web"}); uid != "b" {
		t.Errorf("forgot %q, want b", uid)
	}
	if len(w.objects)+len(w.uidByName)+len(w.verified) != 0 {
		t.Errorf("state is left: %v %v %v", w.objects, w.uidByName, w.verified)
	}
}
