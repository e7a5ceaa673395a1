package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// auditLine returns a line in the format of kube-apiserver 1.36, reduced to the relevant fields.
func auditLine(id, stage, verb, user, uri, ref string, code string) string {
	return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"` + id +
		`","stage":"` + stage + `","requestURI":"` + uri + `","verb":"` + verb +
		`","user":{"username":"` + user + `","groups":["system:masters","system:authenticated"]}` +
		`,"sourceIPs":["127.0.0.1"],"userAgent":"audit.test/v0.0.0"` + ref +
		`,"responseStatus":{"metadata":{},"code":` + code + `}` +
		`,"requestReceivedTimestamp":"2026-03-01T10:00:00.123456Z","stageTimestamp":"2026-03-01T10:00:00.223456Z"` +
		`,"annotations":{"authorization.k8s.io/decision":"allow"}}` + "\n"
}

func createLine(id, name string) string {
	return auditLine(id, StageComplete, "create", "anna", "/api/v1/namespaces/shop/configmaps",
		`,"objectRef":{"resource":"configmaps","namespace":"shop","name":"`+name+`","apiVersion":"v1"}`+
			`,"requestObject":{"kind":"ConfigMap"}`, "201")
}

func deleteLine(id, stage string) string {
	return auditLine(id, stage, "delete", "anna", "/api/v1/namespaces/shop/services/web",
		`,"objectRef":{"resource":"services","namespace":"shop","name":"web","apiVersion":"v1"}`, "200")
}

func markLine(id string) string {
	return auditLine(id, StageComplete, "get", "admin", "/version?mark="+id, "", "200")
}

func openLog(t *testing.T, content string) *Log {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func appendToLog(t *testing.T, l *Log, content string) Position {
	t.Helper()
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	size, err := l.size()
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// eventIDs returns the IDs of the events between two positions.
func eventIDs(t *testing.T, l *Log, from, to Position) string {
	t.Helper()
	events, err := l.Between(from, to)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range events {
		ids = append(ids, e.AuditID)
	}
	return strings.Join(ids, " ")
}

func TestOpenNeedsFile(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none.log")); err == nil {
		t.Error("got no error for a log that does not exist")
	}
}

func TestEventFields(t *testing.T) {
	log := openLog(t, createLine("1", "one"))
	events, err := log.Between(0, -1)
	if err != nil {
		t.Fatal(err)
	}
	e := events[0]
	got := map[string]string{
		"stage": e.Stage, "verb": e.Verb, "user": e.User.Username, "agent": e.UserAgent, "resource": e.Resource(),
		"object": e.ObjectRef.Namespace + "/" + e.ObjectRef.Name, "request": string(e.RequestObject),
		"took": e.StageTime.Sub(e.Received).String(), "decision": e.Annotations["authorization.k8s.io/decision"],
	}
	want := map[string]string{
		"stage": "ResponseComplete", "verb": "create", "user": "anna", "agent": "audit.test/v0.0.0", "resource": "configmaps",
		"object": "shop/one", "request": `{"kind":"ConfigMap"}`, "took": "100ms", "decision": "allow",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBetween(t *testing.T) {
	log := openLog(t, "")
	one := appendToLog(t, log, createLine("1", "one"))
	two := appendToLog(t, log, markLine("fence")+createLine("2", "two"))
	end := appendToLog(t, log, createLine("3", "three"))

	tests := map[string]struct {
		from, to Position
		want     string
	}{
		"all":           {0, end, "1 2 3"},
		"to the end":    {one, -1, "2 3"},
		"without marks": {one, two, "2"},
		"nothing":       {two, two, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := eventIDs(t, log, tc.from, tc.to); got != tc.want {
				t.Errorf("got events %q, want %q", got, tc.want)
			}
		})
	}
}

// An incomplete line must be returned once it is complete.
func TestPartialLineIsReadWhenComplete(t *testing.T) {
	full := createLine("2", "two")
	log := openLog(t, createLine("1", "one")+full[:len(full)/2])
	if got := eventIDs(t, log, 0, -1); got != "1" {
		t.Errorf("got events %q while the second line was incomplete, want 1", got)
	}
	appendToLog(t, log, full[len(full)/2:])
	if got := eventIDs(t, log, 0, -1); got != "1 2" {
		t.Errorf("got events %q after the second line was complete, want 1 2", got)
	}
}

// Mark can be called while another line is incomplete.
func TestWaitForStartsInsideLine(t *testing.T) {
	full := createLine("1", "one")
	log := openLog(t, full[:20])
	from, err := log.size()
	if err != nil {
		t.Fatal(err)
	}
	end := appendToLog(t, log, full[20:]+markLine("fence"))
	appendToLog(t, log, createLine("2", "two"))
	got, err := log.waitFor(t.Context(), from, "fence")
	if err != nil || got != end {
		t.Errorf("waitFor = %d, %v, want %d", got, err, end)
	}
}

// A deletion is visible before its response.
func TestWaitForDeletions(t *testing.T) {
	received := deleteLine("1", stageReceived)
	response := deleteLine("1", StageComplete)
	tests := map[string]struct {
		before, after string // the mark
		want          string
	}{
		"answered after the mark":             {received, createLine("2", "two") + response + createLine("3", "three"), "2 1"},
		"answered before the mark":            {received + response, createLine("2", "two"), "1"},
		"requested after the mark":            {createLine("2", "two"), received, "2"},
		"requested while waiting for another": {received, deleteLine("4", stageReceived) + response, "1"},
		"in another namespace":                {strings.ReplaceAll(received, "shop", "garden"), "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			log := openLog(t, "").WithSubstring("shop")
			to := appendToLog(t, log, tc.before+markLine("fence"))
			later := time.AfterFunc(20*time.Millisecond, func() { appendToLog(t, log, tc.after) })
			defer later.Stop()
			end, err := log.waitForDeletions(t.Context(), 0, to)
			if err != nil {
				t.Fatal(err)
			}
			if got := eventIDs(t, log, 0, end); got != tc.want {
				t.Errorf("got events %q, want %q", got, tc.want)
			}
		})
	}
}

// An API server that was killed never answers; the test must not hang.
func TestWaitForDeletionsTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t, "")
		to := appendToLog(t, log, createLine("1", "one")+deleteLine("2", stageReceived)+markLine("fence"))
		end, err := log.waitForDeletions(t.Context(), 0, to)
		if err != nil || end != to {
			t.Errorf("answered = %d, %v, want %d", end, err, to)
		}
	})
}

func TestLargeLine(t *testing.T) {
	big := strings.Replace(createLine("2", "two"), `{"kind":"ConfigMap"}`, `{"data":"`+strings.Repeat("x", 5<<20)+`"}`, 1)
	log := openLog(t, createLine("1", "one")+big+createLine("3", "three"))
	if got := eventIDs(t, log, 0, -1); got != "1 2 3" {
		t.Errorf("got events %q, want 1 2 3", got)
	}
}

func TestTruncatedLines(t *testing.T) {
	full := createLine("2", "two")
	tests := map[string]struct {
		content string
		want    string
		wantErr string
	}{
		"killed while writing, then restarted": {full[:200] + createLine("3", "three"), "3", ""},
		"killed twice":                         {full[:200] + full[:90] + createLine("3", "three"), "3", ""},
		"not an event":                         {createLine("1", "one") + "rotated\n", "", "line at byte"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			log := openLog(t, tc.content)
			if tc.wantErr == "" {
				if got := eventIDs(t, log, 0, -1); got != tc.want {
					t.Errorf("got events %q, want %q", got, tc.want)
				}
				return
			}
			if _, err := log.Between(0, -1); err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got error %v, want one with %q", err, tc.wantErr)
			}
		})
	}
}
