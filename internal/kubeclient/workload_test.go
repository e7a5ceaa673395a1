package kubeclient

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pagedReader is a reader with a list of three pages.
type pagedReader struct {
	client.Reader
	expireContinue bool
	requests       []string
}

func (p *pagedReader) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	p.requests = append(p.requests, fmt.Sprintf("%s limit %d continue %s", o.Namespace, o.Limit, o.Continue))
	pods := list.(*corev1.PodList)
	switch {
	case o.Limit == 0:
		pods.Items = []corev1.Pod{pod("1"), pod("2"), pod("3")}
	case o.Continue == "":
		pods.Items, pods.Continue = []corev1.Pod{pod("1")}, "2"
	case p.expireContinue:
		return apierrors.NewResourceExpired("too old")
	case o.Continue == "2":
		pods.Items, pods.Continue = []corev1.Pod{pod("2")}, "3"
	default:
		pods.Items = []corev1.Pod{pod("3")}
	}
	return nil
}

func pod(name string) corev1.Pod { return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func TestListAll(t *testing.T) {
	cases := map[string]struct {
		expireContinue bool
		want           []string
	}{
		"in pages":               {want: []string{"shop limit 500 continue ", "shop limit 500 continue 2", "shop limit 500 continue 3"}},
		"expired continue token": {expireContinue: true, want: []string{"shop limit 500 continue ", "shop limit 500 continue 2", "shop limit 0 continue "}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &pagedReader{expireContinue: tc.expireContinue}
			objects, err := ListAll(t.Context(), p, func() client.ObjectList { return &corev1.PodList{} }, client.InNamespace("shop"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.(client.Object).GetName())
			}
			if !slices.Equal(got, []string{"1", "2", "3"}) || !slices.Equal(p.requests, tc.want) {
				t.Errorf("got %q with requests %q, want all with %q", got, p.requests, tc.want)
			}
		})
	}
}

func TestComponentRefOf(t *testing.T) {
	labels := map[string]string{"app.kubernetes.io/instance": "shop", "app.kubernetes.io/component": "web", "apps.holdfast.dev/owner-kind": "AppStack", "apps.holdfast.dev/owner-uid": "1"}
	cases := map[string]struct {
		controller metav1.OwnerReference
		want       ComponentRef
	}{
		"labels":                      {want: ComponentRef{"AppStack", "shop", "web"}},
		"controller of the owner UID": {metav1.OwnerReference{Kind: "AppStack", Name: "a-longer-name", UID: "1", Controller: new(true)}, ComponentRef{"AppStack", "a-longer-name", "web"}},
		"other controller":            {metav1.OwnerReference{Kind: "Other", Name: "other", UID: "2", Controller: new(true)}, ComponentRef{"AppStack", "shop", "web"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			child := pod("web")
			child.Labels, child.OwnerReferences = labels, []metav1.OwnerReference{tc.controller}
			if got := ComponentRefOf(&child); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
