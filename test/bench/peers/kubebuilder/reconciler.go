package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/bench/peers/web"
)

const finalizer = "apps.holdfast.dev/kubebuilder-peer"

type reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var app appsapi.AppService
	if err := r.Get(ctx, request.NamespacedName, &app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !app.DeletionTimestamp.IsZero() {
		// There are no external resources, and the garbage collector deletes the children.
		if controllerutil.RemoveFinalizer(&app, finalizer) {
			return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, &app))
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&app, finalizer) {
		if err := r.Update(ctx, &app); err != nil {
			return ctrl.Result{}, fmt.Errorf("add finalizer: %w", err)
		}
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error { return r.mutateDeployment(&app, deployment) }); err != nil {
		return ctrl.Result{}, fmt.Errorf("update Deployment %s: %w", app.Name, err)
	}
	if web.HasService(&app) {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
		if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error { return r.mutateService(&app, service) }); err != nil {
			return ctrl.Result{}, fmt.Errorf("update Service %s: %w", app.Name, err)
		}
	}
	web.SetReadyStatus(&app, web.Available(deployment), deployment.Status.Replicas, deployment.Status.AvailableReplicas)
	if err := r.Status().Update(ctx, &app); err != nil {
		return ctrl.Result{}, fmt.Errorf("update status: %w", err)
	}
	return ctrl.Result{}, nil
}

// mutateDeployment sets the desired fields and keeps all others.
func (r *reconciler) mutateDeployment(app *appsapi.AppService, d *appsv1.Deployment) error {
	want := web.Deployment(app)
	d.Labels = mergeLabels(d.Labels, want.Labels)
	if d.CreationTimestamp.IsZero() {
		d.Spec = want.Spec
	} else {
		if want.Spec.Replicas != nil {
			d.Spec.Replicas = want.Spec.Replicas
		}
		container := &d.Spec.Template.Spec.Containers[0]
		container.Image, container.Ports = app.Spec.Image, web.ContainerPorts(app)
	}
	return controllerutil.SetControllerReference(app, d, r.Scheme)
}

func (r *reconciler) mutateService(app *appsapi.AppService, s *corev1.Service) error {
	want := web.Service(app)
	s.Labels = mergeLabels(s.Labels, want.Labels)
	s.Spec.Selector, s.Spec.Ports = want.Spec.Selector, want.Spec.Ports
	return controllerutil.SetControllerReference(app, s, r.Scheme)
}

func mergeLabels(labels, desired map[string]string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	for k, v := range desired {
		labels[k] = v
	}
	return labels
}
