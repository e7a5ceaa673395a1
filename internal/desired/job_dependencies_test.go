package desired

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestJobKeepsItsDependencies: an existing Job keeps the dependencies it was created with, even if another client
// changes the annotation.
func TestJobKeepsItsDependencies(t *testing.T) {
	cases := map[string]struct {
		madeWith, spec []string
		change         func(annotations map[string]string)
		want           string
	}{
		"unchanged":        {[]string{"db"}, []string{"db"}, func(map[string]string) {}, "db"},
		"the spec changed": {[]string{"db"}, []string{"queue"}, func(map[string]string) {}, "db"},
		"annotation edited": {[]string{"db"}, []string{"db"}, func(a map[string]string) {
			a[appsapi.DefaultKeys.DependsOn] = "theirs"
		}, "db"},
		"annotation removed": {[]string{"db"}, []string{"db"}, func(a map[string]string) {
			delete(a, appsapi.DefaultKeys.DependsOn)
		}, "db"},
		"annotation added": {nil, nil, func(a map[string]string) {
			a[appsapi.DefaultKeys.DependsOn] = "theirs"
		}, ""},
		"all annotations removed": {[]string{"db"}, []string{"db"}, func(a map[string]string) { clear(a) }, "db"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			of := func(edges []string) Child {
				c := appsapi.Component{Name: "migrate", DependsOn: edges, Job: &appsapi.JobComponent{}}
				c.Job.Image = "shop/migrate:1"
				return Build(Owner{Keys: appsapi.DefaultKeys, Namespace: "shop", Name: "shop", UID: "us"}, ExpandComponents([]appsapi.Component{c}), ClusterState{})[0].Children[0]
			}
			made, err := of(tc.madeWith).Render(nil)
			if err != nil {
				t.Fatal(err)
			}
			live := &batchv1.Job{}
			live.Annotations = map[string]string{appsapi.DefaultKeys.AppliedHash: made.Hash()}
			for k, v := range made.Annotations() {
				live.Annotations[k] = v
			}
			tc.change(live.Annotations)
			now, err := of(tc.spec).Render(live)
			if err != nil {
				t.Fatal(err)
			}
			if got := now.Annotations()[appsapi.DefaultKeys.DependsOn]; got != tc.want {
				t.Errorf("depends on %q, want %q", got, tc.want)
			}
			if now.Hash() != made.Hash() {
				t.Error("the hash of the configuration changed")
			}
		})
	}
}
