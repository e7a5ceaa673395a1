package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func TestNewEvent(t *testing.T) {
	event := func(change func(*corev1.Event)) *corev1.Event {
		e := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(time.Hour)}, Reason: "BackOff", Message: "line 1\nline 2",
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "uid-web-1",
				FieldPath: "spec.containers{app}"},
		}
		change(e)
		return e
	}
	want := func(count int, lastSeen time.Duration) Event {
		return Event{
			Object: testPodRef("web-1"), FieldPath: "spec.containers{app}", Reason: "BackOff", Message: "line 1 line 2",
			Count: count, LastSeen: testNow.Add(-lastSeen),
		}
	}
	cases := map[string]struct {
		event *corev1.Event
		want  Event
	}{
		"counted": {event(func(e *corev1.Event) { e.Count, e.LastTimestamp = 4, ago(time.Minute) }), want(4, time.Minute)},
		"series": {event(func(e *corev1.Event) {
			e.EventTime = metav1.NewMicroTime(testNow.Add(-30 * time.Minute))
			e.Series = &corev1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(testNow.Add(-time.Minute))}
		}), want(7, time.Minute)},
		"single": {
			event(func(e *corev1.Event) { e.EventTime = metav1.NewMicroTime(testNow.Add(-time.Minute)) }),
			want(1, time.Minute),
		},
		"without a time": {event(func(*corev1.Event) {}), want(1, time.Hour)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, NewEvent(tc.event)); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEventsOfDeletedObjectOfSameNameDoNotCount(t *testing.T) {
	event := func(uid, message string, before time.Duration) Event {
		o := testPodRef("db-0")
		o.UID = types.UID(uid)
		return Event{Object: o, Reason: "FailedMount", Message: message, Count: 1, LastSeen: testNow.Add(-before)}
	}
	before, current, unnamed := event("uid-before", "before", 0), event("uid-db-0", "current", time.Minute), event("", "any", time.Minute)
	cases := map[string]struct {
		events []Event
		want   Event
	}{
		"only the deleted object":    {[]Event{before}, Event{}},
		"deleted and current object": {[]Event{current, before}, current},
		"event without a UID":        {[]Event{before, unnamed}, unnamed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := newExplainer(&Snapshot{Events: tc.events}, testNow)
			got, found := e.latestEvent(testPodRef("db-0"), []string{"FailedMount"})
			if diff := cmp.Diff(tc.want, got); diff != "" || found != (tc.want.Reason != "") {
				t.Errorf("found %t, event (-want +got):\n%s", found, diff)
			}
		})
	}
}

func TestAddSortsObjectsByKind(t *testing.T) {
	custom := func(kind string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": kind}}
	}
	route, widget := custom("HTTPRoute"), custom("Widget")
	m := metav1.ObjectMeta{Name: "x"}
	deployment, set, daemons := &appsv1.Deployment{ObjectMeta: m}, &appsv1.StatefulSet{ObjectMeta: m}, &appsv1.DaemonSet{ObjectMeta: m}
	job, cronJob := &batchv1.Job{ObjectMeta: m}, &batchv1.CronJob{ObjectMeta: m}
	p, claim, service := &corev1.Pod{ObjectMeta: m}, &corev1.PersistentVolumeClaim{ObjectMeta: m}, &corev1.Service{ObjectMeta: m}
	slice, ingress := &discoveryv1.EndpointSlice{ObjectMeta: m}, &networkingv1.Ingress{ObjectMeta: m}
	scaler, node := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: m}, &corev1.Node{ObjectMeta: m}
	volume, class := &corev1.PersistentVolume{ObjectMeta: m}, &storagev1.StorageClass{ObjectMeta: m}
	ingressClass := &networkingv1.IngressClass{ObjectMeta: m}
	cases := map[string]struct {
		object runtime.Object
		want   Snapshot
	}{
		"Deployment":              {deployment, Snapshot{Workload: deployment}},
		"StatefulSet":             {set, Snapshot{Workload: set}},
		"DaemonSet":               {daemons, Snapshot{Workload: daemons}},
		"Job":                     {job, Snapshot{Workload: job}},
		"CronJob":                 {cronJob, Snapshot{Workload: cronJob}},
		"Pod":                     {p, Snapshot{Pods: []*corev1.Pod{p}}},
		"PersistentVolumeClaim":   {claim, Snapshot{Claims: []*corev1.PersistentVolumeClaim{claim}}},
		"Service":                 {service, Snapshot{Services: []*corev1.Service{service}}},
		"EndpointSlice":           {slice, Snapshot{EndpointSlices: []*discoveryv1.EndpointSlice{slice}}},
		"Ingress":                 {ingress, Snapshot{Ingresses: []*networkingv1.Ingress{ingress}}},
		"HorizontalPodAutoscaler": {scaler, Snapshot{Autoscalers: []*autoscalingv2.HorizontalPodAutoscaler{scaler}}},
		"Node":                    {node, Snapshot{Nodes: []*corev1.Node{node}}},
		"PersistentVolume":        {volume, Snapshot{Volumes: []*corev1.PersistentVolume{volume}}},
		"StorageClass":            {class, Snapshot{StorageClasses: []*storagev1.StorageClass{class}}},
		"IngressClass":            {ingressClass, Snapshot{IngressClasses: []*networkingv1.IngressClass{ingressClass}}},
		"HTTPRoute":               {route, Snapshot{HTTPRoutes: []*unstructured.Unstructured{route}}},
		"custom resource":         {widget, Snapshot{CustomResources: []*unstructured.Unstructured{widget}}},
		"Event":                   {&corev1.Event{Reason: "BackOff"}, Snapshot{Events: []Event{{Reason: "BackOff", Count: 1}}}},
		"Secret":                  {&corev1.Secret{ObjectMeta: m}, Snapshot{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got Snapshot
			if added := got.Add(tc.object); added != (name != "Secret") {
				t.Errorf("added: %t", added)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("snapshot (-want +got):\n%s", diff)
			}
		})
	}
}
