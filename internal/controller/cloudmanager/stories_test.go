package cloudmanager

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func unmodified(*appsapi.CloudManagerSpec) {}

// TestSampleBecomesReady checks what the documentation says about the sample.
func TestSampleBecomesReady(t *testing.T) {
	w := newStory(t)
	w.create(unmodified)
	w.waitReady()
	w.Expect(w.phase()).To(Equal("Ready"))
	w.Expect(w.componentsReady()).To(Equal("3/3"))
	w.Expect(w.statefulSet("cm-db")).NotTo(BeNil())
	w.Expect(w.claim("data-cm-db-0")).NotTo(BeNil())
	w.Expect(w.service("cm-db").Spec.Ports[0].Port).To(BeEquivalentTo(3306))
	w.Expect(w.service("cm-identity")).To(BeNil(), "identity has no ports")
	w.Expect(w.service("ake-front").Spec.Ports[0].Port).To(BeEquivalentTo(80))
	w.Expect(w.deployment("ake-front")).NotTo(BeNil())
	env := map[string]string{}
	for _, e := range w.deployment("cm-identity").Spec.Template.Spec.Containers[0].Env {
		if env[e.Name] = e.Value; e.ValueFrom != nil {
			env[e.Name] = e.ValueFrom.SecretKeyRef.Name + "/" + e.ValueFrom.SecretKeyRef.Key
		}
	}
	w.Expect(env).To(Equal(map[string]string{
		"DB_HOST": "cm-db." + w.NS + ".svc", "DB_PORT": "3306", "DB_USERNAME": "cm-db-binding/username",
		"DB_PASSWORD": "cm-db-binding/password", "DB_DATABASE": "cm-db-binding/database", "DB_URI": "cm-db-binding/uri",
		"DB_CA_CERT": "cm-db-binding/ca.crt",
	}))
}

// componentsReady returns the second printer column.
func (w *world) componentsReady() string {
	cm := w.cloudManager()
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(cm), cm)).To(Succeed())
	return cm.Status.ComponentsReady
}

// TestComponentsStartInOrder checks that no component starts before its dependency, and that the phase is always
// correct.
func TestComponentsStartInOrder(t *testing.T) {
	w := newStory(t)
	w.create(func(s *appsapi.CloudManagerSpec) {
		s.DB.StatefulSet.Image = "mariadb:never"
		s.Identity.Deployment.Ports = []appsapi.Port{{Port: 8080}}
	})
	w.Eventually(w.phase, "60s").Should(Equal("Progressing"))
	w.Consistently(func() bool { return w.deployment("cm-identity") == nil && w.deployment("ake-front") == nil }, "1s").Should(BeTrue())

	w.editSpec(func(s *appsapi.CloudManagerSpec) { s.DB.StatefulSet.Image = "mariadb:missing" })
	w.Eventually(w.phase, "60s").Should(Equal("Degraded"))
	w.Expect(w.deployment("cm-identity")).To(BeNil())

	w.editSpec(func(s *appsapi.CloudManagerSpec) { s.DB.StatefulSet.Image = "mariadb:10.3.35" })
	w.waitReady()
	w.Expect(w.phase()).To(Equal("Ready"))
	w.Expect(w.deployment("ake-front").Spec.Template.Spec.Containers[0].Env).To(ContainElement(
		corev1.EnvVar{Name: "IDENTITY_HOST", Value: "cm-identity." + w.NS + ".svc"}))
}

// TestPasswordIsOnlyInSecret checks that the password is stored only in the Secret of the database.
func TestPasswordIsOnlyInSecret(t *testing.T) {
	w := newStory(t)
	const password = "not-to-be-seen"
	w.create(func(s *appsapi.CloudManagerSpec) { s.DB.RootPass, s.DB.RootPasswordSecretRef = password, nil })
	w.waitReady()
	w.Expect(w.secret("cm-db-auth").Data).To(HaveKeyWithValue("root-password", []byte(password)))

	cm := w.cloudManager()
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(cm), cm)).To(Succeed())
	w.expectNoPassword(password, cm.Status)
	for _, list := range []client.ObjectList{
		&appsv1.StatefulSetList{}, &appsv1.DeploymentList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{},
		&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &eventsv1.EventList{},
	} {
		w.Expect(w.List(w.Context(), list, client.InNamespace(w.NS))).To(Succeed())
		w.expectNoPassword(password, list)
	}
	var revisions appsv1.ControllerRevisionList
	w.Expect(w.List(w.Context(), &revisions, client.InNamespace(w.NS), client.MatchingLabels{"app.kubernetes.io/instance": cm.Name})).To(Succeed())
	w.Expect(revisions.Items).NotTo(BeEmpty())
	for _, r := range revisions.Items {
		w.expectNoPassword(password, r)
		w.expectNoPassword(password, w.revisionSpec(r))
	}
}

func (w *world) expectNoPassword(password string, obj any) {
	w.Helper()
	content, err := json.Marshal(obj)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(bytes.Contains(content, []byte(password))).To(BeFalse(), "%T contains the password", obj)
}

// revisionSpec returns the spec in a Holdfast revision; it is empty for revisions of a StatefulSet.
func (w *world) revisionSpec(r appsv1.ControllerRevision) string {
	var data struct{ Gzip []byte }
	w.Expect(json.Unmarshal(r.Data.Raw, &data)).To(Succeed())
	if len(data.Gzip) == 0 {
		return ""
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(data.Gzip))
	w.Expect(err).NotTo(HaveOccurred())
	spec, err := io.ReadAll(unpacked)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(string(spec)).To(ContainSubstring("mariadb:10.3.35"), "not a spec")
	return string(spec)
}

// TestRenameKeepsData changes the database name in the spec: the data stays, only the Service changes.
func TestRenameKeepsData(t *testing.T) {
	w := newStory(t)
	w.create(unmodified)
	w.waitReady()
	set, claim := w.statefulSet("cm-db").UID, w.claim("data-cm-db-0").UID
	w.editSpec(func(s *appsapi.CloudManagerSpec) { s.DB.StatefulSet.Name = "cm-store" })
	w.Eventually(func() bool { return w.service("cm-store") != nil }, "60s").Should(BeTrue())
	w.waitReady()
	w.Expect(w.statefulSet("cm-db").UID).To(Equal(set))
	w.Expect(w.claim("data-cm-db-0").UID).To(Equal(claim))
	w.Expect(w.statefulSet("cm-store")).To(BeNil())
	w.Expect(w.deployment("cm-identity").Spec.Template.Spec.Containers[0].Env).To(ContainElement(
		corev1.EnvVar{Name: "DB_HOST", Value: "cm-store." + w.NS + ".svc"}))
}
