package appstack_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
	faults "github.com/holdfast-dev/holdfast/test/faults/report"
)

// dataDeletionCase is a stack with data and a deletion method.
type dataDeletionCase struct {
	*deletionCase
	method      string
	deletesData bool // deletionPolicy Delete
	before      retainedData
}

func (v *dataDeletionCase) String() string {
	if v.deletesData {
		return v.method + ", with the data"
	}
	return v.method
}

// newDataDeletionCases returns stacks for every deletion method and policy.
func newDataDeletionCases(t *testing.T, s *harness.Harness, observer *watcher.Watcher) []*dataDeletionCase {
	t.Helper()
	var all []*dataDeletionCase
	for method := range deletionMethods {
		for _, policy := range []string{"Retain", "Delete"} {
			v := &dataDeletionCase{deletionCase: &deletionCase{world: newWorld(t, s), watcher: observer}, method: method, deletesData: policy == "Delete"}
			v.create("deletionPolicy: " + policy + statefulSpec)
			all = append(all, v)
		}
	}
	for _, v := range all {
		v.waitReady()
		v.before = v.retainedData()
		v.Expect(v.before.claimUID).NotTo(BeEmpty())
	}
	return all
}

// expectDataOutcome waits until the stack is deleted and checks its data. Orphaned workloads keep their data; data is
// always deleted with its namespace.
func (v *dataDeletionCase) expectDataOutcome() {
	v.Helper()
	v.waitStackGone()
	switch v.method {
	case "namespace":
		v.waitGone(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v.NS}})
		return
	case "orphan":
		v.Expect(v.statefulSet("shop-db")).NotTo(BeNil(), v.String())
		v.Expect(v.retainedData()).To(Equal(v.before), v.String())
		return
	}
	v.waitAllGone()
	if v.deletesData {
		v.Eventually(v.retainedData, deletionTimeout).Should(Equal(retainedData{}), v.String())
		return
	}
	v.Expect(v.retainedData()).To(Equal(v.before), v.String())
	v.Expect(v.claim("data-shop-db-0").DeletionTimestamp).To(BeNil(), v.String())
}

// testDataDeletion deletes stacks with data in every way, while the operator runs and while it is down.
func testDataDeletion(t *testing.T, s *harness.Harness) {
	row, start, observer := faults.Row{Test: "18 deletion matrix, data"}, time.Now(), startDeletionWatcher(t, s)
	whileUp, whileDown := newDataDeletionCases(t, s, observer), newDataDeletionCases(t, s, observer)
	row.Generated = len(whileUp) + len(whileDown)
	t.Cleanup(func() {
		if row.Run < row.Generated || t.Failed() {
			row.Failed = max(1, row.Generated-row.Run)
		}
		faults.WriteTimed(t, start, row)
	})
	for _, v := range whileUp {
		deletionMethods[v.method](v.deletionCase)
	}
	for _, v := range whileUp {
		v.expectDataOutcome()
		row.Run++
	}
	whileUp[0].Expect(s.Operator.Kill()).To(Succeed())
	for _, v := range whileDown {
		deletionMethods[v.method](v.deletionCase)
	}
	time.Sleep(7 * time.Second) // deletions that do not need the operator happen now; a namespace takes 5 s to begin
	for _, v := range whileDown {
		if v.method != "namespace" {
			v.Expect(v.retainedData()).To(Equal(v.before), "%s, while the operator is down", v)
		}
	}
	whileUp[0].Expect(s.Operator.Start()).To(Succeed())
	restartedAt := time.Now()
	for _, v := range whileDown {
		v.expectDataOutcome()
		row.Run++
	}
	took := time.Since(restartedAt).Seconds()
	whileUp[0].Expect(took).To(BeNumerically("<", deletionTimeout.Seconds()))
	row.Measured = fmt.Sprintf("%d stacks with data deleted by {background, foreground, orphan, namespace}, with the data or without, half of them while the operator was down: all deleted within %.1f s after its restart; no retained claim was deleted",
		row.Run, took)
}
