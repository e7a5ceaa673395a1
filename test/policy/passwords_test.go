package policy_test

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// newCloudManager returns a CloudManager with a password in its spec and a value of the trial annotation, unless they
// are empty.
func newCloudManager(t *testing.T, name, password, trial string) *unstructured.Unstructured {
	t.Helper()
	cm := applicationInShop(t, specs["CloudManager"].object, name)
	if password != "" {
		if err := unstructured.SetNestedField(cm.Object, password, "spec", "db", "rootPass"); err != nil {
			t.Fatal(err)
		}
	}
	if trial != "" {
		cm.SetAnnotations(map[string]string{"apps.holdfast.dev/trial": trial})
	}
	return cm
}

// testPlainPasswords creates and changes CloudManagers with passwords as an administrator, because the policy applies
// to all users.
func testPlainPasswords(w *world) {
	ctx := w.t.Context()
	for name, tc := range map[string]struct {
		password, trial string
		rejected        bool
	}{
		"without-password":  {"", "", false},
		"password":          {"123456", "", true},
		"other-value":       {"123456", "yes", true},
		"password-of-trial": {"123456", "true", false},
	} {
		err := w.admin.Create(ctx, newCloudManager(w.t, name, tc.password, tc.trial))
		w.t.Logf("%s: %v", name, err)
		if !tc.rejected {
			w.Expect(err).NotTo(HaveOccurred(), name)
			continue
		}
		w.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", name, err)
		w.Expect(err.Error()).To(And(
			ContainSubstring("ValidatingAdmissionPolicy '"+passwordPolicy+"'"),
			HaveSuffix(`CloudManager "`+name+`" contains a password in spec.db.rootPass, which everyone who can read the object can read; `+
				`store the password in a Secret and set spec.db.rootPasswordSecretRef, or remove spec.db.rootPass to generate a password; `+
				`for a trial, set the annotation apps.holdfast.dev/trial to "true"`),
		), name)
		w.Expect(err.Error()).NotTo(ContainSubstring(tc.password))
	}

	cm := newCloudManager(w.t, "changes", "", "")
	w.create(cm)
	setPassword := mergePatch(w.t, "123456", "spec", "db", "rootPass")
	w.Expect(errorText(w.admin.Patch(ctx, cm.DeepCopy(), setPassword))).To(ContainSubstring(passwordPolicy), "the password is set later")
	w.Expect(w.admin.Patch(ctx, cm, mergePatch(w.t, "true", "metadata", "annotations", "apps.holdfast.dev/trial"))).To(Succeed())
	w.Expect(w.admin.Patch(ctx, cm, setPassword)).To(Succeed())
	w.Expect(w.admin.Patch(ctx, cm, mergePatch(w.t, nil, "metadata", "annotations"))).To(Succeed(), "metadata is not checked")
	w.Expect(w.admin.Patch(ctx, cm, mergePatch(w.t, []string{"example.com/wait"}, "metadata", "finalizers"))).To(Succeed(), "finalizers are not checked")
	w.Expect(errorText(w.admin.Patch(ctx, cm.DeepCopy(), mergePatch(w.t, "example.com/front:2", "spec", "front", "deployment", "image")))).
		To(ContainSubstring(passwordPolicy), "the trial has ended")
	w.Expect(w.admin.Patch(ctx, cm, mergePatch(w.t, nil, "spec", "db", "rootPass"))).To(Succeed())
}
