package k8s

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// series is what Prometheus's engine asks, in memory: its own database would bring the libraries of
// all clouds along.
type series struct {
	t      *testing.T
	engine *promql.Engine
	all    []promql.Series
}

func newSeries(t *testing.T) *series {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	t.Cleanup(func() { _ = engine.Close() })
	return &series{t: t, engine: engine}
}

// load adds a series in promtool's notation, for example `up{job="x"}` with `1x5 0x5`.
func (s *series) load(name, values string, interval time.Duration) {
	s.t.Helper()
	metric, sequence, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(name + " " + values)
	if err != nil {
		s.t.Fatalf("%s %s: %v", name, values, err)
	}
	added := promql.Series{Metric: metric}
	for i, v := range sequence {
		if !v.Omitted {
			added.Floats = append(added.Floats, promql.FPoint{T: (time.Duration(i) * interval).Milliseconds(), F: v.Value})
		}
	}
	s.all = append(s.all, added)
}

func (s *series) query(expr string, now time.Duration) promql.Vector {
	s.t.Helper()
	q, err := s.engine.NewInstantQuery(s.t.Context(), s, nil, expr, time.UnixMilli(now.Milliseconds()))
	if err != nil {
		s.t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	result, err := q.Exec(s.t.Context()).Vector()
	if err != nil {
		s.t.Fatalf("%s: %v", expr, err)
	}
	return slices.Clone(result)
}

// record adds a recording rule's result.
func (s *series) record(name string, found promql.Vector, now time.Duration) {
	for _, sample := range found {
		b := labels.NewBuilder(sample.Metric)
		b.Set(model.MetricNameLabel, name)
		metric := b.Labels()
		i := slices.IndexFunc(s.all, func(old promql.Series) bool { return labels.Equal(old.Metric, metric) })
		if i < 0 {
			i = len(s.all)
			s.all = append(s.all, promql.Series{Metric: metric})
		}
		s.all[i].Floats = append(s.all[i].Floats, promql.FPoint{T: now.Milliseconds(), F: sample.F})
	}
}

func (s *series) Querier(_, _ int64) (storage.Querier, error) { return s, nil }

func (s *series) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{}
	for _, one := range s.all {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.Metric.Get(m.Name)) }) {
			found.left = append(found.left, one)
		}
	}
	slices.SortFunc(found.left, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	return found
}

func (s *series) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (s *series) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (s *series) Close() error { return nil }

// seriesSet hands out what Select has found.
type seriesSet struct {
	left []promql.Series
	at   promql.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return promql.NewStorageSeries(s.at) }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
