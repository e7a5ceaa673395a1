package desired

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestJobKeepsItsDependencies tells whom a Job that exists depends on: as it was made, which its hash
// tells, whatever somebody wrote on it since.
func TestJobKeepsItsDependencies(t *testing.T) {
	cases := map[string]struct {
		madeWith, spec []string
		change         func(annotations map[string]string)
		want           string
	}{
		"as it was made":    {[]string{"db"}, []string{"db"}, func(map[string]string) {}, "db"},
		"the spec moved on": {[]string{"db"}, []string{"queue"}, func(map[string]string) {}, "db"},
		"somebody edited it": {[]string{"db"}, []string{"db"}, func(a map[string]string) {
			a[appsapi.AnnotationDependsOn] = "theirs"
		}, "db"},
		"somebody removed it": {[]string{"db"}, []string{"db"}, func(a map[string]string) {
			delete(a, appsapi.AnnotationDependsOn)
		}, "db"},
		"somebody added one": {nil, nil, func(a map[string]string) {
			a[appsapi.AnnotationDependsOn] = "theirs"
		}, ""},
		"somebody removed all annotations": {[]string{"db"}, []string{"db"}, func(a map[string]string) { clear(a) }, "db"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			of := func(edges []string) Child {
				c := appsapi.Component{Name: "migrate", DependsOn: edges, Job: &appsapi.JobComponent{}}
				c.Job.Image = "shop/migrate:1"
				return Build(Owner{Namespace: "shop", Name: "shop", UID: "us"}, []appsapi.Component{c}, ClusterState{})[0].Children[0]
			}
			made, err := of(tc.madeWith).Render(nil)
			if err != nil {
				t.Fatal(err)
			}
			live := &batchv1.Job{}
			live.Annotations = map[string]string{appsapi.AnnotationAppliedHash: made.Hash()}
			for k, v := range made.Annotations() {
				live.Annotations[k] = v
			}
			tc.change(live.Annotations)
			now, err := of(tc.spec).Render(live)
			if err != nil {
				t.Fatal(err)
			}
			if got := now.Annotations()[appsapi.AnnotationDependsOn]; got != tc.want {
				t.Errorf("depends on %q, want %q", got, tc.want)
			}
			if now.Hash() != made.Hash() {
				t.Error("another wish than before")
			}
		})
	}
}
