package httpapi

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metric is one figure of the center, read when somebody asks.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(CenterStatus) float64
}

func newMetric(name, help string, kind prometheus.ValueType, value func(CenterStatus) float64) metric {
	return metric{prometheus.NewDesc("holdfast_center_"+name, help, nil, nil), kind, value}
}

var (
	metrics = []metric{
		newMetric("stream_clients", "Clients that follow a stream now.", prometheus.GaugeValue, func(e CenterStatus) float64 { return float64(e.Hub.Clients) }),
		newMetric("stream_frames_total", "Frames that were made of changes.", prometheus.CounterValue, func(e CenterStatus) float64 { return float64(e.Hub.Frames) }),
		newMetric("stream_deliveries_total", "Frames that were written to clients.", prometheus.CounterValue, func(e CenterStatus) float64 { return float64(e.Hub.Deliveries) }),
		newMetric("stream_closed_slow_total", "Clients that were sent away because they did not read.", prometheus.CounterValue, func(e CenterStatus) float64 { return float64(e.Hub.ClosedSlow) }),
		newMetric("applications", "Applications that are followed.", prometheus.GaugeValue, func(e CenterStatus) float64 { return float64(e.Applications) }),
		newMetric("queue_depth", "Applications waiting for their view to be built.", prometheus.GaugeValue, func(e CenterStatus) float64 { return float64(e.Queue.Waiting) }),
		newMetric("view_builds_total", "Views built.", prometheus.CounterValue, func(e CenterStatus) float64 { return float64(e.Queue.Builds) }),
		newMetric("view_build_seconds_total", "Time spent building views.", prometheus.CounterValue, func(e CenterStatus) float64 { return e.Queue.BuildSeconds }),
		newMetric("access_reviews_total", "Questions to the API server about what callers may see.", prometheus.CounterValue, func(e CenterStatus) float64 { return float64(e.Access.AccessReviews) }),
		newMetric("token_reviews_total", "Questions to the API server about who callers are.", prometheus.CounterValue, func(e CenterStatus) float64 { return float64(e.Access.TokenReviews) }),
	}
	informersDesc = prometheus.NewDesc("holdfast_center_informers", "Kinds that are followed, by how that goes.", []string{"state"}, nil)
	objectsDesc   = prometheus.NewDesc("holdfast_center_objects", "Objects that are held, by resource.", []string{"group", "resource"}, nil)
)

// Metrics are the figures of the center for Prometheus. Who may read them is for the caller to see
// to.
func (s *Server) Metrics() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

type collector struct{ *Server }

// Describe names all metrics.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
	out <- informersDesc
	out <- objectsDesc
}

// Collect reads how everything is, once.
func (c collector) Collect(out chan<- prometheus.Metric) {
	e := c.status()
	for _, m := range metrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(e))
	}
	states, objects := map[string]int{}, map[[2]string]int{}
	for i := range e.Informers {
		states[e.Informers[i].State]++
		objects[[2]string{e.Informers[i].Group, e.Informers[i].Resource}] += e.Informers[i].Objects
	}
	for state, n := range states {
		out <- prometheus.MustNewConstMetric(informersDesc, prometheus.GaugeValue, float64(n), state)
	}
	for r, n := range objects {
		out <- prometheus.MustNewConstMetric(objectsDesc, prometheus.GaugeValue, float64(n), r[0], r[1])
	}
}
