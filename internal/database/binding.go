package database

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// bindingType is the type that the Service Binding specification defines for MySQL.
const bindingType = corev1.SecretType("servicebinding.io/mysql")

// bindingPassword is the key of the password, as the specification defines it.
const bindingPassword = "password"

// bindingData returns the connection details for clients.
func (d Database) bindingData(password string, ca []byte) map[string][]byte {
	port := strconv.Itoa(mariadb.Port)
	uri := url.URL{Scheme: "mysql", User: url.UserPassword(d.Schema, password), Host: net.JoinHostPort(d.Host, port), Path: "/" + d.Schema}
	out := map[string][]byte{mariadb.KeyCA: ca}
	for k, v := range map[string]string{
		"type": "mysql", "provider": "mariadb", "host": d.Host, "port": port,
		"username": d.Schema, bindingPassword: password, "database": d.Schema, "uri": uri.String(),
	} {
		out[k] = []byte(v)
	}
	return out
}

// passwordInvalid stands for a binding that must be written, regardless of its password.
const passwordInvalid = "\x00"

// bindingState is the password in the binding Secret and its resourceVersion.
type bindingState struct{ password, version string }

// getBinding returns the binding, or nil.
func (r *Reconciler) getBinding(ctx context.Context, d Database) (*corev1.Secret, error) {
	live := &corev1.Secret{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Binding}, live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %s/%s: %w", d.Namespace, d.Binding, err)
	}
	return live, nil
}

// bindingState compares the binding with the stored certificate authority.
func (r *Reconciler) bindingState(ctx context.Context, d Database, live *corev1.Secret, ca []byte) (bindingState, error) {
	if live == nil {
		return bindingState{password: passwordInvalid}, nil
	}
	if live.Type != bindingType || !d.ownsBinding(r.Keys, live) {
		return bindingState{}, &ConditionError{Reason: appsapi.ReasonBindingConflict, Message: fmt.Sprintf(
			"Binding Secret %s/%s exists and is not managed by Holdfast (type %s). Delete it if it is not needed",
			d.Namespace, d.Binding, live.Type)}
	}
	password := string(live.Data[bindingPassword])
	for key, value := range d.bindingData(password, ca) { // other clients may have added keys
		if !bytes.Equal(live.Data[key], value) {
			return bindingState{password: passwordInvalid}, nil
		}
	}
	if !slices.ContainsFunc(live.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == *d.Owner.UID }) {
		exists, err := r.ownerExists(ctx, d)
		if err != nil || exists { // the StatefulSet was recreated
			return bindingState{password: passwordInvalid}, err
		}
	}
	return bindingState{password, live.ResourceVersion}, nil
}

// ownerExists reports whether the owner of the binding exists and is not being deleted. Otherwise
// the garbage collector would delete the binding.
func (r *Reconciler) ownerExists(ctx context.Context, d Database) (bool, error) {
	owner := &metav1.PartialObjectMetadata{}
	owner.SetGroupVersionKind(schema.FromAPIVersionAndKind(*d.Owner.APIVersion, *d.Owner.Kind))
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: *d.Owner.Name}, owner)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get %s %s/%s: %w", *d.Owner.Kind, d.Namespace, *d.Owner.Name, err)
	}
	return owner.UID == *d.Owner.UID && owner.DeletionTimestamp == nil, nil
}

// ownsBinding reports whether a binding was created for this application.
func (d Database) ownsBinding(keys *appsapi.Keys, live *corev1.Secret) bool {
	for _, label := range []string{appsapi.LabelManagedBy, appsapi.LabelInstance, keys.OwnerKind} {
		if live.Labels[label] != d.Labels[label] {
			return false
		}
	}
	return true
}

// applyBinding writes the binding and returns its resourceVersion.
func (r *Reconciler) applyBinding(ctx context.Context, d Database, password string, ca []byte) (version string, err error) {
	exists, err := r.ownerExists(ctx, d)
	if err != nil {
		return "", err
	}
	if !exists {
		return "", fmt.Errorf("%s %s/%s is being recreated", *d.Owner.Kind, d.Namespace, *d.Owner.Name)
	}
	secret := corev1ac.Secret(d.Binding, d.Namespace).WithLabels(d.Labels).WithOwnerReferences(d.Owner).
		WithType(bindingType).WithData(d.bindingData(password, ca))
	if err := r.Writer.Apply(ctx, secret, client.FieldOwner(r.Keys.FieldManager), client.ForceOwnership); err != nil {
		return "", fmt.Errorf("apply Secret %s/%s: %w", d.Namespace, d.Binding, err)
	}
	return *secret.ResourceVersion, nil // set from the response
}
