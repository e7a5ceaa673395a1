package policy

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func guestbooks() Options {
	return Options{
		Name: "guestbook", Group: "example.com", Kinds: []Kind{{"Guestbook", "guestbooks"}, {"Gallery", "galleries"}},
		Types: []appsapi.ComponentType{appsapi.ComponentService, appsapi.ComponentDatabase}, LabelPrefix: "guestbook.example.com",
		AccountNamespace: "books", AccountName: "operator", Lease: "books-lease",
		ServiceAccounts: "[object.spec.account]", DeletesData: "object.spec.deletionPolicy == 'Delete'",
	}
}

// TestManifestsAreValid decodes the manifests strictly. The example and test/policy test them on an API server.
func TestManifestsAreValid(t *testing.T) {
	for _, p := range []Policy{RequesterRights, KeepData, OperatorAccount} {
		manifest, err := Manifest(p, guestbooks())
		if err != nil {
			t.Fatal(err)
		}
		documents := strings.Split(string(manifest), "\n---\n")
		if len(documents) != 2 {
			t.Fatalf("%s: %d documents", p, len(documents))
		}
		var policy admissionv1.ValidatingAdmissionPolicy
		var binding admissionv1.ValidatingAdmissionPolicyBinding
		if err := yaml.UnmarshalStrict([]byte(documents[0]), &policy); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		if err := yaml.UnmarshalStrict([]byte(documents[1]), &binding); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		if want := "guestbook-" + string(p); policy.Name != want || binding.Spec.PolicyName != want || len(policy.Spec.Validations) == 0 {
			t.Errorf("%s: policy %s with %d validations, binding to %s", p, policy.Name, len(policy.Spec.Validations), binding.Spec.PolicyName)
		}
		if strings.Contains(string(manifest), "apps.holdfast.dev") {
			t.Errorf("%s contains the label prefix of another operator", p)
		}
	}
}

func TestRequesterRightsFollowTheTypes(t *testing.T) {
	o := guestbooks()
	for _, tc := range []struct {
		types           []appsapi.ComponentType
		contains, lacks []string
	}{
		{o.Types, []string{"create deployments.apps", "create statefulsets.apps", "create secrets", "make the change: create pods, create configmaps, create deployments.apps", "variables.deletesData", "variables.accounts[1]"}, []string{"create jobs.batch"}},
		{[]appsapi.ComponentType{appsapi.ComponentJob}, []string{"create pods", "create cronjobs.batch"}, []string{"create deployments.apps", "create secrets"}},
	} {
		o.Types = tc.types
		manifest, err := Manifest(RequesterRights, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.contains {
			if !strings.Contains(string(manifest), want) {
				t.Errorf("types %v: %q is missing", tc.types, want)
			}
		}
		for _, not := range tc.lacks {
			if strings.Contains(string(manifest), not) {
				t.Errorf("types %v: contains %q", tc.types, not)
			}
		}
	}
}

func TestNamesCannotChangeExpressions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no kinds":               func(o *Options) { o.Kinds = nil },
		"empty name":             func(o *Options) { o.Name = "" },
		"quote in the namespace": func(o *Options) { o.AccountNamespace = "books' || 'a' == 'a" },
		"line break in a kind":   func(o *Options) { o.Kinds[0].Kind = "Guest\nbook" },
		"empty lease":            func(o *Options) { o.Lease = "" },
		"line break in CEL":      func(o *Options) { o.DeletesData = "true\n  - name: x" },
	} {
		o := guestbooks()
		change(&o)
		if manifest, err := Manifest(OperatorAccount, o); err == nil {
			t.Errorf("%s: accepted\n%s", name, manifest)
		}
	}
}
