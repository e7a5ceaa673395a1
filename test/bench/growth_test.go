package bench

import (
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// batchSize is the number of AppServices that are created before waiting until all are Ready.
const batchSize = 1000

// growTo creates AppServices up to a total number.
func (p *population) growTo(size int) {
	p.Helper()
	for p.size < size {
		p.growthSteps = append(p.growthSteps, p.createBatch(min(p.size+batchSize, size)))
	}
}

// createBatch creates the next AppServices and returns their cost.
func (p *population) createBatch(to int) results.GrowthStep {
	p.Helper()
	p.createNamespaces(p.size, to)
	start, before := time.Now(), p.usage()
	p.createApps(p.size, to, func(*appsapi.AppService) {})
	p.waitAllReady(to)
	took := time.Since(start)
	p.waitIdle() // work after the last one is Ready belongs to this step
	step := results.GrowthStep{
		From: p.size, To: to, Seconds: took.Seconds(),
		CPUMillis: map[string]float64{}, RSSMB: map[string]float64{}, EtcdMB: p.etcdSizeMB(),
	}
	for name, seconds := range p.usage().since(before) {
		step.CPUMillis[name] = 1000 * seconds / float64(to-p.size)
	}
	for name, pid := range p.processes() {
		_, step.RSSMB[name] = residentMemory(p, pid)
	}
	p.logProgress("%d are Ready; each of the last %d took %.1f ms CPU of the API server and %.1f ms of the operator", to, to-p.size, step.CPUMillis[apiServerCPU], step.CPUMillis[contenderCPU])
	p.size = to
	return step
}
