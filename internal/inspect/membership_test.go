package inspect_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/inspect"
)

func TestMembership(t *testing.T) {
	type labels = map[string]string
	ours := labels{"app.kubernetes.io/managed-by": "holdfast", "app.kubernetes.io/instance": "shop", "app.kubernetes.io/part-of": "shop",
		"apps.holdfast.dev/owner-kind": "AppStack", "apps.holdfast.dev/owner-uid": "u"}
	partOf := labels{"app.kubernetes.io/part-of": "shop"}
	by := func(apiVersion, kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: "u", Controller: new(true)}}
	}
	installed := labels{"meta.helm.sh/release-name": "blog", "meta.helm.sh/release-namespace": "web"}
	cases := map[string]struct {
		meta metav1.ObjectMeta
		want string
	}{
		"no membership": {metav1.ObjectMeta{Namespace: "demo"}, ""},
		"managed, by owner": {metav1.ObjectMeta{Namespace: "demo",
			OwnerReferences: by("apps.holdfast.dev/v1alpha1", "AppService", "site")}, "AppService demo/site"},
		"managed, by labels": {metav1.ObjectMeta{Namespace: "demo", Labels: ours}, "AppStack demo/shop"},
		"full name from the owner": {metav1.ObjectMeta{Namespace: "demo", Labels: ours,
			OwnerReferences: by("apps.holdfast.dev/v1beta1", "AppStack", "shop-of-a-long-name")}, "AppStack demo/shop-of-a-long-name"},
		"managed by owner, and Helm": {metav1.ObjectMeta{Namespace: "demo", Annotations: installed,
			OwnerReferences: by("apps.holdfast.dev/v1alpha1", "CloudManager", "cm")}, "CloudManager demo/cm"},
		"managed by labels, and Helm": {metav1.ObjectMeta{Namespace: "demo", Annotations: installed, Labels: ours}, "AppStack demo/shop"},
		"managed pod": {metav1.ObjectMeta{Namespace: "demo", Annotations: installed,
			Labels: labels{"app.kubernetes.io/managed-by": "holdfast", "app.kubernetes.io/part-of": "all"}}, ""},
		"another kind of the same group": {metav1.ObjectMeta{Namespace: "demo",
			OwnerReferences: by("apps.holdfast.dev/v1alpha1", "Other", "x")}, ""},
		"same kind of another group":          {metav1.ObjectMeta{Namespace: "demo", OwnerReferences: by("example.com/v1", "AppStack", "x")}, ""},
		"owner with an invalid apiVersion":    {metav1.ObjectMeta{Namespace: "demo", OwnerReferences: by("a/b/c", "AppStack", "x")}, ""},
		"Helm release":                        {metav1.ObjectMeta{Namespace: "web", Annotations: installed}, "HelmRelease web/blog"},
		"Helm release of another namespace":   {metav1.ObjectMeta{Namespace: "demo", Annotations: installed}, ""},
		"Helm release, cluster-scoped object": {metav1.ObjectMeta{Annotations: installed}, "HelmRelease web/blog"},
		"Helm before a group": {metav1.ObjectMeta{Namespace: "web", Annotations: installed, Labels: partOf},
			"HelmRelease web/blog"},
		"incomplete Helm annotations": {metav1.ObjectMeta{Namespace: "demo", Annotations: labels{"meta.helm.sh/release-name": "blog"},
			Labels: partOf}, "Group demo/shop"},
		"group":                        {metav1.ObjectMeta{Namespace: "demo", Labels: partOf}, "Group demo/shop"},
		"group, cluster-scoped object": {metav1.ObjectMeta{Labels: partOf}, ""},
		"labels copied from a template": {metav1.ObjectMeta{Namespace: "demo", Labels: partOf,
			OwnerReferences: by("apps/v1", "ReplicaSet", "web-1")}, ""},
		"labels of a custom controller": {metav1.ObjectMeta{Namespace: "demo", Labels: partOf,
			OwnerReferences: by("example.com/v1", "Queue", "mail")}, "Group demo/shop"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			kind, namespace, member, ok := inspect.Membership(&tc.meta)
			if ok {
				got = kind + " " + namespace + "/" + member
			}
			if got != tc.want || !ok && kind+namespace+member != "" {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
