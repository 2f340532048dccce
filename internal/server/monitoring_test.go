package server_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"

	taskhub "github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// described is a registry that keeps the labels of what is registered, by the name of the metric.
type described map[string][]string

var descText = regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)

func (d described) add(text string) {
	m := descText.FindStringSubmatch(text)
	d[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })
}

func (d described) Register(c prometheus.Collector) error {
	out := make(chan *prometheus.Desc)
	go func() { c.Describe(out); close(out) }()
	for desc := range out {
		d.add(desc.String())
	}
	return nil
}

func (d described) MustRegister(list ...prometheus.Collector) {
	for _, c := range list {
		_ = d.Register(c)
	}
}

func (d described) Unregister(prometheus.Collector) bool { return true }

// labels returns the labels of a metric as a rule names it, with those that Prometheus adds.
func (d described) labels(name string) ([]string, bool) {
	own := []string{"instance", "job"}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && d[base] != nil {
			name = base
			if suffix == "_bucket" {
				own = append(own, "le")
			}
		}
	}
	list, ok := d[name]
	return append(own, list...), ok
}

// everyMetric returns what servers, nodes and workers export.
func everyMetric(t *testing.T) described {
	t.Helper()
	all := described{}
	start(t, server.Config{InMemory: true, Metrics: all, Events: true})
	for _, d := range server.ClusterMetrics() {
		all.add(d)
	}
	all.MustRegister(server.FrontMetrics())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	(&backup.Schedule{Metrics: all}).Run(ctx)
	archive.New(archive.Options{Place: backup.Folder(t.TempDir()), Metrics: all})
	archive.NewFollower(archive.FollowOptions{Place: backup.Folder(t.TempDir()), Metrics: all})
	all.MustRegister(workers.New(workers.Config{}).Collector(), new(taskhub.Backend).Collector())
	return all
}

// expression holds the query of a rule or a graph, with the texts that name labels of the answer.
type expression struct{ where, text, names string }

var (
	metricName = regexp.MustCompile(`\b(lazuli_\w+|up)(\{[^}]*\})?`)
	matcher    = regexp.MustCompile(`(\w+)\s*[!=]`)
	grouped    = regexp.MustCompile(`\b(by|on)\s*\(([^)]*)\)`)
	answered   = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)
)

// problems returns what is wrong with the names in an expression.
func (e expression) problems(all described) (list []string) {
	var known []string
	for _, m := range metricName.FindAllStringSubmatch(e.text, -1) {
		labels, ok := all.labels(m[1])
		if !ok && m[1] != "up" {
			list = append(list, "there is no metric "+m[1])
		}
		known = append(known, labels...)
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels, l[1]) {
				list = append(list, m[1]+" has no label "+l[1])
			}
		}
	}
	if known == nil {
		list = append(list, "it names no metric")
	}
	answer := known // the labels of the answer: of the outermost group, which stands first
	for i, m := range grouped.FindAllStringSubmatch(e.text, -1) {
		by := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
		for _, name := range by {
			if !slices.Contains(known, name) {
				list = append(list, "nothing in it has the label "+name)
			}
		}
		if i == 0 && m[1] == "by" {
			answer = by
		}
	}
	for _, m := range answered.FindAllStringSubmatch(e.names, -1) {
		if !slices.Contains(answer, m[1]) {
			list = append(list, "its answer has no label "+m[1])
		}
	}
	return list
}

// alerts returns the rules of alerts.yaml.
func alerts(t *testing.T) (list []expression) {
	t.Helper()
	text, err := os.ReadFile("../../docs/monitoring/alerts.yaml")
	check.OK(t, err)
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	check.OK(t, yaml.Unmarshal(text, &file))
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			list = append(list, expression{r.Alert, r.Expr, r.Annotations["summary"]})
		}
	}
	return list
}

// graphs returns what the panels of grafana.json show.
func graphs(t *testing.T) (list []expression) {
	t.Helper()
	text, err := os.ReadFile("../../docs/monitoring/grafana.json")
	check.OK(t, err)
	var file struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	check.OK(t, json.Unmarshal(text, &file))
	for _, p := range file.Panels {
		for _, target := range p.Targets {
			list = append(list, expression{p.Title, target.Expr, target.LegendFormat})
		}
	}
	return list
}

// The alerts and the graphs name only metrics that exist, and labels that these have; so do the pages.
func TestMonitoringNamesWhatExists(t *testing.T) {
	t.Parallel()
	all := everyMetric(t)
	rules, panels := alerts(t), graphs(t)
	if len(rules) < 10 || len(panels) < 10 {
		t.Errorf("%d alerts and %d graphs: the check checks nothing", len(rules), len(panels))
	}
	for _, e := range slices.Concat(rules, panels) {
		for _, p := range e.problems(all) {
			t.Errorf("%s: %s: %s", e.where, p, e.text)
		}
	}
	pages, err := filepath.Glob("../../docs/*.md")
	check.OK(t, err)
	named := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		check.OK(t, err)
		for _, m := range regexp.MustCompile("`(lazuli_[a-z_]+)").FindAllStringSubmatch(string(text), -1) {
			named++
			_, ok := all.labels(m[1])
			for name := range all { // a name such as lazuli_cluster_*
				ok = ok || strings.HasSuffix(m[1], "_") && strings.HasPrefix(name, m[1])
			}
			if !ok {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("the pages name %d metrics: the check checks nothing", named)
	}
	running, err := os.ReadFile("../../docs/running.md")
	check.OK(t, err)
	for _, m := range regexp.MustCompile(`\bLazuli[A-Z]\w+`).FindAllString(string(running), -1) {
		if !slices.ContainsFunc(rules, func(e expression) bool { return e.where == m }) {
			t.Errorf("docs/running.md names the alert %s, which does not exist", m)
		}
	}
	for text, want := range map[string]string{
		`lazuli_nothing > 0`:                       "there is no metric lazuli_nothing",
		`lazuli_queue_messages{topic="a"}`:         "lazuli_queue_messages has no label topic",
		`sum by (topic) (lazuli_queue_messages)`:   "nothing in it has the label topic",
		`sum by (account) (lazuli_queue_messages)`: "its answer has no label queue",
		`lazuli_disk_free_bytes`:                   "its answer has no label queue",
	} {
		if got := (expression{"", text, "{{queue}}"}).problems(all); !slices.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
