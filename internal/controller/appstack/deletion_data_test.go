package appstack_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
	faults "github.com/holdfast-dev/holdfast/test/faults/report"
)

// vault is a stack with data that ends in one way.
type vault struct {
	*ending
	way     string
	deletes bool // its data is to go, too
	before  treasure
}

func (v *vault) String() string {
	if v.deletes {
		return v.way + ", with the data"
	}
	return v.way
}

// vaults are stacks that are to end in every way, with their data and without.
func vaults(t *testing.T, s *stage.Stage, eye *watcher.Watcher) []*vault {
	t.Helper()
	var all []*vault
	for way := range unattended {
		for _, policy := range []string{"Retain", "Delete"} {
			v := &vault{ending: &ending{world: newWorld(t, s), eye: eye}, way: way, deletes: policy == "Delete"}
			v.create("deletionPolicy: " + policy + withData)
			all = append(all, v)
		}
	}
	for _, v := range all {
		v.becomesReady()
		v.before = v.treasure()
		v.Expect(v.before.claim).NotTo(BeEmpty())
	}
	return all
}

// over waits until a vault has ended, and sees what became of its data. Whatever runs on
// keeps its data; what its namespace takes along is nobody's to keep.
func (v *vault) over() {
	v.Helper()
	v.stackGoes()
	switch v.way {
	case "namespace":
		v.disappears(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v.NS}})
		return
	case "orphan":
		v.Expect(v.set("shop-db")).NotTo(BeNil(), v.String())
		v.Expect(v.treasure()).To(Equal(v.before), v.String())
		return
	}
	v.isGone()
	if v.deletes {
		v.Eventually(v.treasure, soon).Should(Equal(treasure{}), v.String())
		return
	}
	v.Expect(v.treasure()).To(Equal(v.before), v.String())
	v.Expect(v.claim("data-shop-db-0").DeletionTimestamp).To(BeNil(), v.String())
}

// testData ends stacks with data in every way, while the operator looks on and while it is
// down.
func testData(t *testing.T, s *stage.Stage) {
	row, start, eye := faults.Row{Test: "18 deletion matrix, data"}, time.Now(), openEye(t, s)
	up, down := vaults(t, s, eye), vaults(t, s, eye)
	row.Generated = len(up) + len(down)
	t.Cleanup(func() {
		if row.Run < row.Generated || t.Failed() {
			row.Failed = max(1, row.Generated-row.Run)
		}
		faults.Since(t, start, row)
	})
	for _, v := range up {
		unattended[v.way](v.ending)
	}
	for _, v := range up {
		v.over()
		row.Run++
	}
	up[0].Expect(s.Operator.Kill()).To(Succeed())
	for _, v := range down {
		unattended[v.way](v.ending)
	}
	time.Sleep(7 * time.Second) // what may go without us goes now; a namespace takes 5 s to begin
	for _, v := range down {
		if v.way != "namespace" {
			v.Expect(v.treasure()).To(Equal(v.before), "%s, while nobody looks", v)
		}
	}
	up[0].Expect(s.Operator.Start()).To(Succeed())
	back := time.Now()
	for _, v := range down {
		v.over()
		row.Run++
	}
	took := time.Since(back).Seconds()
	up[0].Expect(took).To(BeNumerically("<", soon.Seconds()))
	row.Seen = fmt.Sprintf("%d stacks with data ended by {background, foreground, orphan, namespace}, with the data or without, half of them while the operator was down: the last was gone %.1f s after it was back; no claim went that was to be kept",
		row.Run, took)
}
