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

// bindingType says to others that know the convention what is in the Secret.
const bindingType = corev1.SecretType("servicebinding.io/mysql")

// bindingPassword is a key of a binding, as the convention has it.
const bindingPassword = "password"

// bindingData is what those who use the database are told.
func (d Database) bindingData(password string) map[string][]byte {
	port := strconv.Itoa(mariadb.Port)
	uri := url.URL{Scheme: "mysql", User: url.UserPassword(d.Schema, password), Host: net.JoinHostPort(d.Host, port), Path: "/" + d.Schema}
	out := map[string][]byte{}
	for k, v := range map[string]string{
		"type": "mysql", "provider": "mariadb", "host": d.Host, "port": port,
		"username": d.Schema, bindingPassword: password, "database": d.Schema, "uri": uri.String(),
	} {
		out[k] = []byte(v)
	}
	return out
}

// passwordInvalid stands for a binding that has to be written whatever its password is.
const passwordInvalid = "\x00"

// bindingState is the password that they are told now, and the version of what tells it.
type bindingState struct{ password, version string }

// readBinding reads the binding.
func (r *Reconciler) readBinding(ctx context.Context, d Database) (bindingState, error) {
	var live corev1.Secret
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Binding}, &live)
	if apierrors.IsNotFound(err) {
		return bindingState{password: passwordInvalid}, nil
	}
	if err != nil {
		return bindingState{}, fmt.Errorf("get Secret %s/%s: %w", d.Namespace, d.Binding, err)
	}
	if live.Type != bindingType || !d.ownsBinding(&live) {
		return bindingState{}, &ConditionError{Reason: appsapi.ReasonBindingConflict, Message: fmt.Sprintf("Secret %s/%s, which is to say how to get in, exists and is not Holdfast's (type %s). Delete it if nobody needs it",
			d.Namespace, d.Binding, live.Type)}
	}
	password := string(live.Data[bindingPassword])
	for key, value := range d.bindingData(password) { // others may have added to it
		if !bytes.Equal(live.Data[key], value) {
			return bindingState{password: passwordInvalid}, nil
		}
	}
	if !slices.ContainsFunc(live.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == *d.Owner.UID }) {
		exists, err := r.ownerExists(ctx, d)
		if err != nil || exists { // its set was made anew
			return bindingState{password: passwordInvalid}, err
		}
	}
	return bindingState{password, live.ResourceVersion}, nil
}

// ownerExists says whether what the binding is to belong to is there, and not about to go. What belongs to
// something that is gone is deleted by Kubernetes.
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

// ownsBinding says whether a binding was made by us, for this application.
func (d Database) ownsBinding(live *corev1.Secret) bool {
	for _, label := range []string{appsapi.LabelManagedBy, appsapi.LabelInstance, appsapi.LabelOwnerKind} {
		if live.Labels[label] != d.Labels[label] {
			return false
		}
	}
	return true
}

// applyBinding tells those who use the database, and returns the version of what tells it.
func (r *Reconciler) applyBinding(ctx context.Context, d Database, password string) (version string, err error) {
	exists, err := r.ownerExists(ctx, d)
	if err != nil {
		return "", err
	}
	if !exists {
		return "", fmt.Errorf("%s %s/%s is being made anew", *d.Owner.Kind, d.Namespace, *d.Owner.Name)
	}
	secret := corev1ac.Secret(d.Binding, d.Namespace).WithLabels(d.Labels).WithOwnerReferences(d.Owner).
		WithType(bindingType).WithData(d.bindingData(password))
	if err := r.Writer.Apply(ctx, secret, client.FieldOwner(appsapi.FieldManager), client.ForceOwnership); err != nil {
		return "", fmt.Errorf("apply Secret %s/%s: %w", d.Namespace, d.Binding, err)
	}
	return *secret.ResourceVersion, nil // which the answer has put there
}
