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
		"nothing is said":                       {metav1.ObjectMeta{Namespace: "demo"}, ""},
		"ours by its owner":                     {metav1.ObjectMeta{Namespace: "demo", OwnerReferences: by("apps.holdfast.dev/v1alpha1", "AppService", "site")}, "AppService demo/site"},
		"ours by its labels":                    {metav1.ObjectMeta{Namespace: "demo", Labels: ours}, "AppStack demo/shop"},
		"the owner knows the whole name":        {metav1.ObjectMeta{Namespace: "demo", Labels: ours, OwnerReferences: by("apps.holdfast.dev/v1beta1", "AppStack", "shop-of-a-long-name")}, "AppStack demo/shop-of-a-long-name"},
		"ours, and Helm installed it":           {metav1.ObjectMeta{Namespace: "demo", Annotations: installed, OwnerReferences: by("apps.holdfast.dev/v1alpha1", "CloudManager", "cm")}, "CloudManager demo/cm"},
		"ours by its labels, and of Helm":       {metav1.ObjectMeta{Namespace: "demo", Annotations: installed, Labels: ours}, "AppStack demo/shop"},
		"a pod of ours, whatever it is part of": {metav1.ObjectMeta{Namespace: "demo", Annotations: installed, Labels: labels{"app.kubernetes.io/managed-by": "holdfast", "app.kubernetes.io/part-of": "all"}}, ""},
		"another kind of our group":             {metav1.ObjectMeta{Namespace: "demo", OwnerReferences: by("apps.holdfast.dev/v1alpha1", "Other", "x")}, ""},
		"our kind of another group":             {metav1.ObjectMeta{Namespace: "demo", OwnerReferences: by("example.com/v1", "AppStack", "x")}, ""},
		"an owner without a version":            {metav1.ObjectMeta{Namespace: "demo", OwnerReferences: by("a/b/c", "AppStack", "x")}, ""},
		"Helm":                                  {metav1.ObjectMeta{Namespace: "demo", Annotations: installed}, "HelmRelease web/blog"},
		"Helm, in no namespace":                 {metav1.ObjectMeta{Annotations: installed}, "HelmRelease web/blog"},
		"Helm before a group":                   {metav1.ObjectMeta{Namespace: "demo", Annotations: installed, Labels: partOf}, "HelmRelease web/blog"},
		"half of Helm":                          {metav1.ObjectMeta{Namespace: "demo", Annotations: labels{"meta.helm.sh/release-name": "blog"}, Labels: partOf}, "Group demo/shop"},
		"a group":                               {metav1.ObjectMeta{Namespace: "demo", Labels: partOf}, "Group demo/shop"},
		"a group in no namespace":               {metav1.ObjectMeta{Labels: partOf}, ""},
		"a copy of a template":                  {metav1.ObjectMeta{Namespace: "demo", Labels: partOf, OwnerReferences: by("apps/v1", "ReplicaSet", "web-1")}, ""},
		"what the controller of others labels":  {metav1.ObjectMeta{Namespace: "demo", Labels: partOf, OwnerReferences: by("example.com/v1", "Queue", "mail")}, "Group demo/shop"},
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
