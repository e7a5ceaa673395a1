package install

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// certManager is the module with the CustomResourceDefinitions.
const certManager = "github.com/cert-manager/cert-manager@v1.19.1"

// TestCertManagerOverlay applies the overlay with the schemas of cert-manager, and checks that the center uses the
// Secret of its Certificate.
func TestCertManagerOverlay(t *testing.T) {
	download := exec.Command("go", "mod", "download", "-json", certManager)
	download.Dir = t.TempDir() // outside of the module
	out, err := download.Output()
	if err != nil {
		t.Fatalf("download %s: %v\n%s", certManager, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t)
	c.kubectl(nil, "apply", "--server-side", "-f", filepath.Join(module.Dir, "deploy", "crds", "cert-manager.io_certificates.yaml"),
		"-f", filepath.Join(module.Dir, "deploy", "crds", "cert-manager.io_issuers.yaml"))
	c.kubectl(nil, "wait", "--for=condition=Established", "crd/certificates.cert-manager.io", "crd/issuers.cert-manager.io", "--timeout=30s")
	c.kubectl(render(t, "cert-manager"), "apply", "--server-side", "--validate=strict", "-f", "-")

	secret := c.kubectl(nil, "-n", namespace, "get", "certificate", "holdfast-center", "-o", "jsonpath={.spec.secretName}")
	issuer := c.kubectl(nil, "-n", namespace, "get", "certificate", "holdfast-center", "-o", "jsonpath={.spec.issuerRef.name}")
	authority := c.kubectl(nil, "-n", namespace, "get", "issuer", issuer, "-o", "jsonpath={.spec.ca.secretName}")
	c.Expect(c.kubectl(nil, "-n", namespace, "get", "certificate", "holdfast-center-ca", "-o", "jsonpath={.spec.secretName} {.spec.isCA}")).To(Equal(authority + " true"))
	const pod = "jsonpath={.spec.template.spec.volumes[0].secret.secretName} {.spec.template.spec.containers[0].volumeMounts[0].mountPath} {.spec.template.spec.containers[0].args}"
	c.Expect(c.kubectl(nil, "-n", namespace, "get", "deployment", "holdfast-center", "-o", pod)).To(Equal(secret + ` /certificate ["--cert-dir=/certificate"]`))

	// Apart from the certificate and its use, the overlay is cluster-wide.
	wide, withCertificate := renderObjects(t, "cluster-wide"), renderObjects(t, "cert-manager")
	for id, obj := range wide {
		if id != "Deployment "+namespace+"/holdfast-center" {
			c.Expect(withCertificate[id]).To(HaveField("Object", obj.Object), id)
		}
		delete(withCertificate, id)
	}
	c.Expect(withCertificate).To(HaveEach(WithTransform((*unstructured.Unstructured).GetAPIVersion, Equal("cert-manager.io/v1"))))
	c.Expect(withCertificate).To(HaveLen(4))
}
