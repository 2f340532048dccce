package workers

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// relabelled is a function's histogram with the name and labels of its metric family.
type relabelled struct {
	prometheus.Histogram
	desc *prometheus.Desc
	host string
	f    *Function
}

// Desc implements prometheus.Metric.
func (r relabelled) Desc() *prometheus.Desc { return r.desc }

// Write implements prometheus.Metric.
func (r relabelled) Write(m *dto.Metric) error {
	if err := r.Histogram.Write(m); err != nil {
		return err
	}
	label := func(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }
	m.Label = []*dto.LabelPair{label("function", r.f.core.Name), label("host", r.host), label("trigger", r.f.core.Trigger)}
	return nil
}
