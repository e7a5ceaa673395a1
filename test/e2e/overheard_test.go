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

// overheard is what anybody on the node, or in the cluster, can read while passwords are in use, without
// being allowed to read Secrets.
type overheard struct {
	mu        sync.Mutex
	heard     map[string]string // what, and where first
	passwords map[string]bool
}

// eavesdrop reads the command lines of all processes, and the environment of our own, until the test ends.
func eavesdrop(t *testing.T) *overheard {
	t.Helper()
	o := &overheard{heard: map[string]string{}, passwords: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			o.processes()
			time.Sleep(50 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return o
}

func (o *overheard) processes() {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if commandOf(dir) == "kubectl" {
			continue // we type passwords ourselves
		}
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		o.hear("a command line", string(line))
		if environment, _ := os.ReadFile(filepath.Join(dir, "environ")); strings.Contains(string(environment), ofOurs) {
			o.hear("the environment of a program of ours", string(environment))
		}
	}
}

// ofOurs is in the environment of the programs of Holdfast: what their pods are called.
const ofOurs = "HOSTNAME=holdfast-"

func (o *overheard) hear(where, what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.heard[what]; !ok {
		o.heard[what] = where
	}
}

// learn remembers the passwords that are in use.
func (o *overheard) learn(t *testing.T) {
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

// noPassword looks for all that was learned in all that was heard, in everything that can be read, and in
// what everybody has logged.
func (o *overheard) noPassword(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	for _, pods := range [][]string{{"holdfast-system", "app.kubernetes.io/component=operator"}, {"holdfast-system", "app.kubernetes.io/component=center"},
		{dbNS, "app.kubernetes.io/instance=" + sample}} {
		for _, which := range []string{"--previous=false", "--previous"} {
			log, err := try("", "-n", pods[0], "logs", "-l", pods[1], "--all-containers", "--tail=-1", "--ignore-errors", which)
			if which != "--previous" { // not everybody was here before
				g.Expect(err).NotTo(HaveOccurred())
			}
			o.hear("the log of "+pods[1]+" "+which, log)
		}
	}
	readable := kubectl(t, "-n", dbNS, "get", "statefulsets,deployments,pods,pvc,services,configmaps,controllerrevisions,events", "-o", "json")
	o.hear("what can be read", readable)
	o.hear("the status", cloudManager(t, dbNS, "{.status}"))
	o.mu.Lock()
	defer o.mu.Unlock()
	g.Expect(len(o.passwords)).To(BeNumerically(">=", 4), "root and the account, before and after")
	for _, must := range []string{"mariadbd", ofOurs + "operator", ofOurs + "center"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(o.heard)), func(what string) bool { return strings.Contains(what, must) }) {
			t.Errorf("%s was not heard", must)
		}
	}
	for what, where := range o.heard {
		for password := range o.passwords {
			for _, form := range []string{password, base64.StdEncoding.EncodeToString([]byte(password)), mariadb.Hash(password)} {
				if strings.Contains(what, form) {
					t.Errorf("%s has the password %s: %q", where, password, what)
				}
			}
		}
	}
	t.Logf("looked for %d passwords in %d command lines, environments, logs and objects", len(o.passwords), len(o.heard))
}
