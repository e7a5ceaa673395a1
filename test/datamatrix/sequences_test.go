package datamatrix

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// maxSequence is the maximum length of a random sequence.
const maxSequence = 8

// TestSequences runs random sequences of three to eight operations, alternately with a stateful component and with a
// database. They find states that no pair reaches.
func TestSequences(t *testing.T) {
	s := harness.New(t, func(*corev1.Pod) podsim.Behavior { return podsim.Behavior{} }, operator.Options{})
	startedAt := time.Now()
	var executed, violations atomic.Int64
	running := newRunner(t)
	for i := range *sequences {
		sequence := randomSequence(*seed, i)
		running.start(fmt.Sprintf("%d", i), func(t *testing.T) {
			p := newStackDriver(s.NewWorld(t))
			p.database = i%2 == 1
			replay := fmt.Sprintf("go test ./test/datamatrix -run 'TestSequences/^%d$' -sequences=%d -seed=%d", i, i+1, *seed)
			p.run(sequence, replay, func(o runOutcome) { violations.Add(int64(o.violations)) })
			executed.Add(int64(len(sequence)))
		})
	}
	running.Wait()
	s.ExpectNoForbiddenRequests(t)
	t.Logf("%d sequences with %d operations, %d violations, %.0f seconds, seed %d",
		*sequences, executed.Load(), violations.Load(), time.Since(startedAt).Seconds(), *seed)
}

// randomSequence returns a sequence that depends only on the seed and its number, so that it can run alone.
func randomSequence(seed uint64, number int) []operation {
	rng := rand.New(rand.NewPCG(seed, uint64(number)))
	out := make([]operation, 3+rng.IntN(maxSequence-2))
	for i := range out {
		out[i] = operations[rng.IntN(len(operations))]
	}
	return out
}

func describeSequence(sequence []operation) string {
	var names []string
	for _, op := range sequence {
		names = append(names, op.name)
	}
	return strings.Join(names, ", then ")
}
