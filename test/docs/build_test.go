package docs

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestMakeBuildCompilesOnce checks that make build links each program once: linking is most of the time of a build.
func TestMakeBuildCompilesOnce(t *testing.T) {
	cmd := exec.Command("make", "--dry-run", "--no-print-directory", "build")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), "go build"); n != 1 {
		t.Errorf("make build runs go build %d times:\n%s", n, out)
	}
}

// TestClusterPageListsSampleImages checks that the page of the test cluster lists the images of the CloudManager sample
// next to the images that the nodes have under these names.
func TestClusterPageListsSampleImages(t *testing.T) {
	page := readText(t, "docs/dev/cluster.md")
	for _, m := range regexp.MustCompile(`(?m)^ +image: (\S+)`).FindAllStringSubmatch(readText(t, "config/samples/cloudmanager.yaml"), -1) {
		if !regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(m[1]) + "` \\|").MatchString(page) {
			t.Errorf("docs/dev/cluster.md does not list %s", m[1])
		}
	}
}

// TestSamplesAreObjects checks that kubectl apply -f config/samples/ finds only objects.
func TestSamplesAreObjects(t *testing.T) {
	files, err := os.ReadDir(root + "/config/samples")
	if err != nil || len(files) == 0 {
		t.Fatalf("read %d samples: %v", len(files), err)
	}
	for _, f := range files {
		var o struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(readText(t, "config/samples/"+f.Name())), &o); err != nil || o.APIVersion == "" || o.Kind == "" {
			t.Errorf("%s is not an object: apiVersion %q, kind %q, %v", f.Name(), o.APIVersion, o.Kind, err)
		}
	}
}

// readText returns the content of a file of the repository.
func readText(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(root + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestNoAdviceToStopTheOperator checks that no page and no message advises to scale the operator to 0: all kinds can be
// suspended, and without an operator nothing is corrected in the whole cluster.
func TestNoAdviceToStopTheOperator(t *testing.T) {
	texts := map[string]string{"docs/reference/messages.md": readText(t, "docs/reference/messages.md")}
	for name := range pages(t) {
		texts[name] = readText(t, name)
	}
	advice := regexp.MustCompile(`holdfast-operator[^\n]*--replicas=0`)
	for name, text := range texts {
		if found := advice.FindString(text); found != "" {
			t.Errorf("%s: %s", name, found)
		}
	}
}
