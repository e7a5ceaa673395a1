package watchgaps

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-dev/holdfast/internal/cli/root"
	verb "github.com/holdfast-dev/holdfast/internal/cli/watch"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// watchCommand is a running kubectl holdfast watch.
type watchCommand struct {
	t      *testing.T
	stop   context.CancelFunc
	done   chan struct{}
	errOut bytes.Buffer

	mu     sync.Mutex
	lines  []string
	output watchOutput
}

// watchOutput is the parsed output.
type watchOutput struct {
	changes []verb.Change
	relists []verb.Notice
	ended   verb.Notice
}

func startWatch(t *testing.T, config *rest.Config, ns string) *watchCommand {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(controlplane.Kubeconfig(config), kubeconfig); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	w := &watchCommand{t: t, stop: stop, done: make(chan struct{})}
	in, out := io.Pipe()
	cmd := root.Command("test")
	cmd.SetOut(out)
	cmd.SetErr(&w.errOut)
	cmd.SetArgs([]string{"--kubeconfig", kubeconfig, "--cache-dir", t.TempDir(), "watch", "configmaps", "-n", ns, "--existing", "-o", "json"})
	go func() {
		if err := cmd.ExecuteContext(ctx); err != nil {
			t.Errorf("watch: %v", err)
		}
		_ = out.Close()
	}()
	go w.read(in)
	return w
}

func (w *watchCommand) read(in io.Reader) {
	defer close(w.done)
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		w.parseLine(scanner.Bytes())
	}
}

func (w *watchCommand) parseLine(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, string(line))
	var header metav1.TypeMeta
	var n verb.Notice
	var c verb.Change
	if err := json.Unmarshal(line, &header); err != nil || header.APIVersion != "cli.holdfast.dev/v1alpha1" {
		w.t.Errorf("unknown line: %s", line)
		return
	}
	if header.Kind == "Change" {
		if err := json.Unmarshal(line, &c); err != nil {
			w.t.Error(err)
		}
		w.output.changes = append(w.output.changes, c)
		return
	}
	if err := json.Unmarshal(line, &n); err != nil {
		w.t.Error(err)
	}
	switch n.Type {
	case "Relisted":
		w.output.relists = append(w.output.relists, n)
	case "Ended":
		w.output.ended = n
	}
}

func (w *watchCommand) relists() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.output.relists)
}

func (w *watchCommand) hasPrinted(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.output.changes) - 1; i >= 0; i-- {
		if w.output.changes[i].Object.Name == name {
			return true
		}
	}
	return false
}

func (w *watchCommand) tail() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines[max(0, len(w.lines)-5):], "\n")
}

// interrupt stops the command like Ctrl-C.
func (w *watchCommand) interrupt() watchOutput {
	w.stop()
	<-w.done
	if w.errOut.Len() > 0 {
		w.t.Errorf("-o json must not write to standard error, got %q", w.errOut.String())
	}
	return w.output
}

// objectState is the replayed state of an object.
type objectState struct {
	UID, Version string
	Data         map[string]string
}

// checkOutput compares the output with the writes and with the current objects.
func (w *world) checkOutput(n faultCounts, written *writers, output watchOutput) {
	w.Helper()
	if len(output.relists) != n.expiries {
		w.Errorf("got %d re-lists, want %d", len(output.relists), n.expiries)
	}
	changes, missed := 0, 0
	for _, c := range output.changes {
		if c.Type != "EXISTS" {
			changes++
		}
		if c.Gap != nil && strings.HasPrefix(c.Object.Name, "judge-") {
			missed++
		}
	}
	if missed != n.expiries*markersPerExpiry {
		w.Errorf("MISSED contains %d marker objects, want %d: the watch may not have been interrupted", missed, n.expiries*markersPerExpiry)
	}
	if c := output.ended.Counts; c == nil || c.Relists != n.expiries || c.Reconnects < n.cuts || c.Changes != changes {
		w.Errorf("ended with %+v (%s), want %d re-lists, at least %d reconnects and %d changes", c, output.ended.Message, n.expiries, n.cuts,
			changes)
	}
	if diff := cmp.Diff(w.listCurrent(), output.replay(w.T)); diff != "" {
		w.Errorf("the replayed output differs from the cluster (-cluster +replayed):\n%s", diff)
	}
	output.checkOrder(w.T)
	output.checkNoLostWrites(w.T, written.versions)
	output.checkAuthors(w.T)
}

// listCurrent returns the current objects.
func (w *world) listCurrent() map[string]objectState {
	list, err := w.client.CoreV1().ConfigMaps(w.ns).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	out := map[string]objectState{}
	for i := range list.Items {
		o := &list.Items[i]
		out[o.Name] = objectState{string(o.UID), o.ResourceVersion, o.Data}
	}
	return out
}

// replay applies the printed changes, field by field.
func (p watchOutput) replay(t *testing.T) map[string]objectState {
	out := map[string]objectState{}
	for _, c := range p.changes {
		name := c.Object.Name
		old, known := out[name]
		if known != (c.Type == "MODIFIED" || c.Type == "DELETED") {
			t.Errorf("%s of %s, which exists: %t", c.Type, name, known)
		}
		if c.Type == "DELETED" {
			delete(out, name)
			continue
		}
		s := objectState{c.Object.UID, c.Object.ResourceVersion, old.Data}
		if s.Data == nil {
			s.Data = map[string]string{}
		}
		for _, f := range c.Fields {
			key, ok := strings.CutPrefix(f.Path.String(), "data.")
			switch {
			case !ok:
				t.Errorf("unexpected change of %s of %s: only data changes", f.Path, name)
			case f.Type == "Removed":
				delete(s.Data, key)
			default:
				s.Data[key], _ = f.New.(string)
			}
		}
		out[name] = s
	}
	return out
}

// checkOrder checks that no version of an object is printed twice or after a newer one.
func (p watchOutput) checkOrder(t *testing.T) {
	last := map[string]uint64{}
	for _, c := range p.changes {
		if c.Object.ResourceVersion == "" && c.Type == "DELETED" && c.Gap != nil {
			continue // without a resource version
		}
		v := parseVersion(t, c.Object.ResourceVersion)
		if v <= last[c.Object.Name] {
			t.Errorf("%s: version %d is printed after %d", c.Object.Name, v, last[c.Object.Name])
		}
		last[c.Object.Name] = v
	}
}

// checkNoLostWrites checks that every write that is not printed was made while the watch reported lost events.
func (p watchOutput) checkNoLostWrites(t *testing.T, written map[string]bool) {
	seen := map[string]bool{}
	for _, c := range p.changes {
		seen[c.Object.ResourceVersion] = true
	}
	lost := 0
	for version := range written {
		if !seen[version] && !p.wasBlindAt(t, version) {
			t.Errorf("version %s was written but not printed, and the watch reported no lost events", version)
		}
		if !seen[version] {
			lost++
		}
	}
	t.Logf("%d of %d versions were written while the watch reported lost events", lost, len(written))
}

func (p watchOutput) wasBlindAt(t *testing.T, version string) bool {
	for _, n := range p.relists {
		if v := parseVersion(t, version); v > parseVersion(t, n.Gap.After) && v <= parseVersion(t, n.Gap.Until) {
			return true
		}
	}
	return false
}

// checkAuthors compares the printed field managers with the writer's name in the object.
func (p watchOutput) checkAuthors(t *testing.T) {
	writer := map[string]string{}
	for _, c := range p.changes {
		for _, f := range c.Fields {
			if f.Path.String() == "data.writer" {
				writer[c.Object.Name], _ = f.New.(string)
			}
		}
		if c.Type == "DELETED" || c.Gap != nil {
			continue
		}
		if len(c.Managers) != 1 || c.Managers[0].Name != writer[c.Object.Name] || c.Managers[0].Operation != "Update" {
			t.Errorf("%s of %s, version %s, was written by %s, not by %+v", c.Type, c.Object.Name, c.Object.ResourceVersion, writer[c.Object.Name], c.Managers)
		}
	}
}

func parseVersion(t *testing.T, version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		t.Fatalf("version %q: %v", version, err)
	}
	return n
}
