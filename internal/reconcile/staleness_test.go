package reconcile

import "testing"

// TestStaleCacheAfterRestartIsNotApplied restarts an operator with caches that start from outdated
// lists: newer state is not overwritten, and the application is not reported as ready.
func TestStaleCacheAfterRestartIsNotApplied(t *testing.T) {
	const (
		isNew = iota
		first
		second
		edited
	)
	deployment := ref{"Deployment", "web"}
	cases := map[string]struct {
		// app and children are the states with which the caches start: when the application was new,
		// with the first image, with the second one, or after one more edit.
		app, children int
		// edit is the image of one more edit, which was not reconciled.
		edit  string
		stale bool
		reads int
	}{
		"converged":                           {app: second, children: second},
		"application with an earlier spec":    {app: first, children: second, stale: true, reads: 2},
		"application as created":              {app: isNew, children: second, stale: true, reads: 2},
		"application and children as created": {app: isNew, children: isNew, stale: true, reads: 2 * 2},
		"children with an earlier spec":       {app: second, children: first, stale: true, reads: 2},
		"children that match the edited spec": {app: edited, children: first, edit: "web:1", stale: true, reads: 2},
		"edit while the operator was down":    {app: edited, children: second, edit: "web:3", reads: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, states := convergedWorld(t, "web:2")
			if tc.edit != "" {
				modifyObject(appServiceRef, setImage(tc.edit)).do(w.server)
			}
			states = append(states, w.server.objects)
			w.crash(false)
			show := func(r ref, at int) {
				if v := states[at][r]; v != nil {
					w.caches[r.kind].objects[r.name] = v
				} else {
					delete(w.caches[r.kind].objects, r.name)
				}
			}
			show(appServiceRef, tc.app)
			show(deployment, tc.children)
			show(ref{"Service", "web"}, tc.children)
			before := w.server.objects[deployment].digest
			w.reconcile(appServiceRef, nil)
			if changed := w.server.objects[deployment].digest != before; w.violation != "" || w.lastErr != nil || changed && tc.stale {
				t.Errorf("%s, %v, changed %t", w.violation, w.lastErr, changed)
			}
			if stale := len(w.serviceReconciler.staleBackoff.(countingLimiter)) > 0; stale != tc.stale {
				t.Errorf("stale: %t, want %t", stale, tc.stale)
			}
			if got := w.liveReads.Load(); got != int64(tc.reads) {
				t.Errorf("%d reads, want %d", got, tc.reads)
			}
		})
	}
}

// convergedWorld returns a world that converged after every edit, and the states after each edit,
// starting with the new application.
func convergedWorld(t *testing.T, edits ...string) (*world, []map[ref]*objectVersion) {
	t.Helper()
	in := &scenario{edits: []edit{createObject(appServiceRef, newAppService("web:1"))}}
	for _, img := range edits {
		in.edits = append(in.edits, modifyObject(appServiceRef, setImage(img)))
	}
	w := newWorld(in, budget{}, injectedBug{})
	w.doStep(step{verb: "edit"})
	states := []map[ref]*objectVersion{w.server.clone().objects}
	for {
		steps := w.enabledSteps()
		if len(steps) == 0 || steps[0].verb == "edit" {
			states = append(states, w.server.clone().objects)
		}
		if len(steps) == 0 {
			break
		}
		if w.doStep(steps[0]); w.violation != "" {
			t.Fatal(w.violation)
		}
	}
	w.liveReads.Store(0)
	return w, states
}
