// Package policy generates the admission policies of an operator that is built on the engine.
//
//	go run github.com/holdfast-dev/holdfast/engine/policy/generate -name guestbook -group example.com -kinds Guestbook=guestbooks ...
package policy

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

//go:embed *.yaml.tmpl
var templates embed.FS

// Policy is the name of a policy, after the prefix.
type Policy string

// The policies.
const (
	// RequesterRights rejects applications with objects that their author is not allowed to create.
	RequesterRights Policy = "requester-rights"
	// KeepData rejects deletions of data that are not confirmed.
	KeepData Policy = "keep-data"
	// OperatorAccount limits the writes of the operator's ServiceAccount.
	OperatorAccount Policy = "operator-account"
)

// Kind is a kind of application and its resource.
type Kind struct{ Kind, Resource string }

// Options describes an operator.
type Options struct {
	// Name is the prefix of the names of the policies.
	Name string
	// Group is the API group of the kinds.
	Group string
	Kinds []Kind
	// Types are the component types of the kinds, as in engine.Kind.
	Types []appsapi.ComponentType
	// LabelPrefix is engine.ManagerOptions.LabelPrefix.
	LabelPrefix string
	// AccountNamespace and AccountName identify the ServiceAccount of the operator.
	AccountNamespace, AccountName string
	// Lease is the ID of the leader election.
	Lease string
	// ServiceAccounts is a CEL expression for the names of the ServiceAccounts that an object uses:
	// [object.spec.serviceAccountName]. Empty if the kinds have no such field.
	ServiceAccounts string
	// DeletesData is a CEL expression that is true if deleting an object deletes its data. Empty if data is
	// always retained.
	DeletesData string
}

// power is a permission that is enough to take over the cluster.
type power struct{ Check, Text string }

// powers are the permissions that ServiceAccounts of applications must not have.
var powers = []power{
	{"group('*').resource('*').check('*')", "do everything"},
	{"group('rbac.authorization.k8s.io').resource('clusterroles').check('escalate')", "escalate clusterroles"},
	{"group('rbac.authorization.k8s.io').resource('clusterroles').namespace('kube-system').name('cluster-admin').check('bind')", "bind the ClusterRole cluster-admin"},
	{"group('').resource('users').check('impersonate')", "impersonate users"},
	{"group('').resource('groups').name('system:masters').check('impersonate')", "impersonate the group system:masters"},
	{"group('').resource('serviceaccounts').namespace('kube-system').check('impersonate')", "impersonate ServiceAccounts in namespace kube-system"},
	{"group('').resource('serviceaccounts').subresource('token').namespace('kube-system').check('create')", "create tokens in namespace kube-system"},
	{"group('').resource('secrets').namespace('kube-system').check('create')", "create secrets in namespace kube-system"},
	{"group('').resource('pods').namespace('kube-system').check('create')", "create pods in namespace kube-system"},
	{"group('').resource('pods').subresource('exec').namespace('kube-system').check('create')", "create pods/exec in namespace kube-system"},
	{"group('apps').resource('deployments').namespace('kube-system').check('create')", "create deployments in namespace kube-system"},
	{"group('apps').resource('deployments').namespace('kube-system').check('patch')", "patch deployments in namespace kube-system"},
	{"group('apps').resource('daemonsets').namespace('kube-system').check('create')", "create daemonsets in namespace kube-system"},
	{"group('apps').resource('daemonsets').namespace('kube-system').check('patch')", "patch daemonsets in namespace kube-system"},
	{"group('apps').resource('statefulsets').namespace('kube-system').check('create')", "create statefulsets in namespace kube-system"},
	{"group('batch').resource('jobs').namespace('kube-system').check('create')", "create jobs in namespace kube-system"},
	{"group('').resource('nodes').subresource('proxy').check('get')", "get nodes/proxy"},
	{"group('').resource('nodes').subresource('proxy').check('create')", "create nodes/proxy"},
	{"group('').resource('persistentvolumes').check('create')", "create persistentvolumes"},
	{"group('admissionregistration.k8s.io').resource('mutatingwebhookconfigurations').check('create')", "create mutatingwebhookconfigurations"},
	{"group('admissionregistration.k8s.io').resource('mutatingwebhookconfigurations').check('patch')", "patch mutatingwebhookconfigurations"},
	{"group('admissionregistration.k8s.io').resource('validatingadmissionpolicybindings').check('delete')", "delete validatingadmissionpolicybindings"},
	{"group('admissionregistration.k8s.io').resource('validatingadmissionpolicybindings').check('patch')", "patch validatingadmissionpolicybindings"},
	{"group('certificates.k8s.io').resource('certificatesigningrequests').subresource('approval').check('update')", "update certificatesigningrequests/approval"},
}

// right is a permission that the author of an application needs.
type right struct{ Verb, Group, Resource string }

// String returns text like "create deployments.apps".
func (r right) String() string { return r.Verb + " " + strings.TrimSuffix(r.Resource+"."+r.Group, ".") }

// rights returns the permissions for all children that components of these types can have.
func rights(types []appsapi.ComponentType) []right {
	children := []right{{"create", "", "pods"}, {"create", "", "configmaps"}}
	data := []right{{"create", "apps", "statefulsets"}, {"create", "", "persistentvolumeclaims"}, {"create", "", "secrets"}}
	for _, t := range types {
		switch t {
		case appsapi.ComponentService:
			children = append(children, right{"create", "apps", "deployments"}, right{"create", "", "services"}, right{"create", "autoscaling", "horizontalpodautoscalers"},
				right{"create", "policy", "poddisruptionbudgets"}, right{"create", "networking.k8s.io", "ingresses"})
		case appsapi.ComponentStateful, appsapi.ComponentDatabase:
			children = append(append(children, data...), right{"create", "", "services"}, right{"create", "policy", "poddisruptionbudgets"})
		case appsapi.ComponentJob:
			children = append(children, right{"create", "batch", "jobs"}, right{"create", "batch", "cronjobs"})
		}
	}
	var distinct []right
	for _, r := range children {
		if !slices.Contains(distinct, r) {
			distinct = append(distinct, r)
		}
	}
	return distinct
}

// plainName matches names and prefixes. They are part of CEL expressions, so they must not contain quotes.
var plainName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$`)

func (o *Options) validate() error {
	if len(o.Kinds) == 0 {
		return errors.New("no kinds; set at least one")
	}
	names := map[string]string{
		"name": o.Name, "group": o.Group, "label prefix": o.LabelPrefix, "namespace of the ServiceAccount": o.AccountNamespace,
		"name of the ServiceAccount": o.AccountName, "lease": o.Lease,
	}
	for _, k := range o.Kinds {
		names["kind "+k.Kind], names["resource of kind "+k.Kind] = k.Kind, k.Resource
	}
	for _, expression := range []string{o.ServiceAccounts, o.DeletesData} {
		if strings.ContainsAny(expression, "\r\n") {
			return fmt.Errorf("expression %q contains line breaks; write it in one line", expression)
		}
	}
	for what, name := range names {
		if !plainName.MatchString(name) {
			return fmt.Errorf("%s %q is not a name of letters, digits, dots and dashes", what, name)
		}
	}
	return nil
}

// Manifest returns the manifest of a policy and its binding.
func Manifest(p Policy, o Options) ([]byte, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	t, err := template.New(string(p)+".yaml.tmpl").Funcs(template.FuncMap{"kindList": kindList, "kindText": kindText}).ParseFS(templates, string(p)+".yaml.tmpl")
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", p, err)
	}
	var out bytes.Buffer
	err = t.Execute(&out, struct {
		Options
		Powers []power
		Rights []right
	}{o, powers, rights(o.Types)})
	return out.Bytes(), err
}

// kindList returns 'A', 'B'.
func kindList(kinds []Kind) string {
	quoted := make([]string, 0, len(kinds))
	for _, k := range kinds {
		quoted = append(quoted, "'"+k.Kind+"'")
	}
	return strings.Join(quoted, ", ")
}

// kindText returns A, B or C.
func kindText(kinds []Kind) string {
	names := make([]string, 0, len(kinds))
	for _, k := range kinds {
		names = append(names, k.Kind)
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
