package bench

import (
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// atOnce is how many AppServices are created before all of them have to be Ready.
const atOnce = 1000

// grow creates AppServices until there are so many.
func (p *population) grow(size int) {
	p.Helper()
	for p.size < size {
		p.growth = append(p.growth, p.step(min(p.size+atOnce, size)))
	}
}

// step creates the next AppServices and says what these took.
func (p *population) step(to int) results.Growth {
	p.Helper()
	p.makeNamespaces(p.size, to)
	start, used := time.Now(), p.usage()
	p.createApps(p.size, to, func(*appsapi.AppService) {})
	p.waitAll(to)
	took := time.Since(start)
	p.rest() // what comes after the last is Ready belongs to this step
	step := results.Growth{
		From: p.size, To: to, Seconds: took.Seconds(),
		CPUMillis: map[string]float64{}, RSSMB: map[string]float64{}, EtcdMB: p.etcdMB(),
	}
	for name, seconds := range p.usage().since(used) {
		step.CPUMillis[name] = 1000 * seconds / float64(to-p.size)
	}
	for name, pid := range p.processes() {
		_, step.RSSMB[name] = memory(p, pid)
	}
	p.say("%d are Ready; each of the last %d took the API server %.1f ms and the operator %.1f", to, to-p.size, step.CPUMillis[apiServerCPU], step.CPUMillis[contenderCPU])
	p.size = to
	return step
}
