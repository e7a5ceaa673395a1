package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// leakDetector collects everything that is readable on the node or in the cluster without access to Secrets.
type leakDetector struct {
	mu        sync.Mutex
	texts     map[string]string // text to its first location
	passwords map[string]bool
}

// startLeakDetector reads the command lines of all processes and the environment of Holdfast processes until the test
// ends.
func startLeakDetector(t *testing.T) *leakDetector {
	t.Helper()
	o := &leakDetector{texts: map[string]string{}, passwords: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			o.readProcesses()
			time.Sleep(50 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	return o
}

func (o *leakDetector) readProcesses() {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if commandName(dir) == "kubectl" {
			continue // the test passes passwords to kubectl
		}
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		o.record("a command line", string(line))
		if environment, _ := os.ReadFile(filepath.Join(dir, "environ")); strings.Contains(string(environment), holdfastHostname) {
			o.record("the environment of a Holdfast process", string(environment))
		}
	}
}

// holdfastHostname is the prefix of the pod names of Holdfast in the environment of its processes.
const holdfastHostname = "HOSTNAME=holdfast-"

func (o *leakDetector) record(where, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.texts[text]; !ok {
		o.texts[text] = where
	}
}

// addPasswords adds the passwords that are in use.
func (o *leakDetector) addPasswords(t *testing.T) {
	t.Helper()
	for _, name := range []string{"cm-db-auth", "cm-db-binding"} {
		var secret struct{ Data map[string][]byte }
		if err := json.Unmarshal([]byte(kubectl(t, "-n", dbNS, "get", "secret", name, "-o", "json")), &secret); err != nil {
			t.Fatal(err)
		}
		for key, value := range secret.Data {
			if strings.HasSuffix(key, "password") {
				o.passwords[string(value)] = true
			}
		}
	}
}

// verifyNoPassword searches the collected texts, the readable objects and the logs for the passwords.
func (o *leakDetector) verifyNoPassword(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	for _, pods := range [][]string{{"holdfast-system", "app.kubernetes.io/component=operator"}, {"holdfast-system", "app.kubernetes.io/component=center"},
		{dbNS, "app.kubernetes.io/instance=" + sampleName}} {
		for _, previous := range []string{"--previous=false", "--previous"} {
			log, err := tryKubectl("", "-n", pods[0], "logs", "-l", pods[1], "--all-containers", "--tail=-1", "--ignore-errors", previous)
			if previous != "--previous" { // not every pod has a previous container
				g.Expect(err).NotTo(HaveOccurred())
			}
			o.record("the log of "+pods[1]+" "+previous, log)
		}
	}
	readable := kubectl(t, "-n", dbNS, "get", "statefulsets,deployments,pods,pvc,services,configmaps,controllerrevisions,events", "-o", "json")
	o.record("the readable objects", readable)
	o.record("the status", cloudManagerField(t, dbNS, "{.status}"))
	o.mu.Lock()
	defer o.mu.Unlock()
	g.Expect(len(o.passwords)).To(BeNumerically(">=", 4), "root and application passwords, before and after rotation")
	for _, required := range []string{"mariadbd", holdfastHostname + "operator", holdfastHostname + "center"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(o.texts)), func(text string) bool { return strings.Contains(text, required) }) {
			t.Errorf("found no process with %s", required)
		}
	}
	for text, where := range o.texts {
		for password := range o.passwords {
			for _, encoded := range []string{password, base64.StdEncoding.EncodeToString([]byte(password)), mariadb.Hash(password)} {
				if strings.Contains(text, encoded) {
					t.Errorf("%s contains the password %s: %q", where, password, text)
				}
			}
		}
	}
	t.Logf("looked for %d passwords in %d command lines, environments, logs and objects", len(o.passwords), len(o.texts))
}
