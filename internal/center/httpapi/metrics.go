package httpapi

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metric is a metric that is computed when it is scraped.
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
		newMetric("stream_clients", "Number of connected stream clients.", prometheus.GaugeValue,
			func(e CenterStatus) float64 { return float64(e.Hub.Clients) }),
		newMetric("stream_frames_total", "Number of frames created from changes.", prometheus.CounterValue,
			func(e CenterStatus) float64 { return float64(e.Hub.Frames) }),
		newMetric("stream_deliveries_total", "Number of frames written to clients.", prometheus.CounterValue,
			func(e CenterStatus) float64 { return float64(e.Hub.Deliveries) }),
		newMetric("stream_closed_slow_total", "Number of clients disconnected because they read too slowly.", prometheus.CounterValue,
			func(e CenterStatus) float64 { return float64(e.Hub.ClosedSlow) }),
		newMetric("applications", "Number of known applications.", prometheus.GaugeValue,
			func(e CenterStatus) float64 { return float64(e.Applications) }),
		newMetric("queue_depth", "Number of applications queued for a rebuild of their view.", prometheus.GaugeValue,
			func(e CenterStatus) float64 { return float64(e.Queue.Waiting) }),
		newMetric("view_builds_total", "Number of view builds.", prometheus.CounterValue,
			func(e CenterStatus) float64 { return float64(e.Queue.Builds) }),
		newMetric("view_build_seconds_total", "Total time spent building views, in seconds.", prometheus.CounterValue,
			func(e CenterStatus) float64 { return e.Queue.BuildSeconds }),
		newMetric("access_reviews_total", "Number of SubjectAccessReview requests to the API server.", prometheus.CounterValue,
			func(e CenterStatus) float64 { return float64(e.Access.AccessReviews) }),
		newMetric("token_reviews_total", "Number of TokenReview requests to the API server.", prometheus.CounterValue,
			func(e CenterStatus) float64 { return float64(e.Access.TokenReviews) }),
	}
	informersDesc = prometheus.NewDesc("holdfast_center_informers", "Number of informers by state.", []string{"state"}, nil)
	objectsDesc   = prometheus.NewDesc("holdfast_center_objects", "Number of stored objects by resource.", []string{"group", "resource"}, nil)
)

// Metrics returns a handler that serves the metrics of the center. The handler does not check permissions.
func (s *Server) Metrics() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

type collector struct{ *Server }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
	out <- informersDesc
	out <- objectsDesc
}

// Collect implements prometheus.Collector. It reads the status once for all metrics.
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
