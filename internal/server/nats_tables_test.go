package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// Two servers share the tables of an external NATS cluster, which loses one of its three servers; a third one starts
// with an empty folder, and a folder with tables of its own is refused.
func TestTablesOnAnExternalNATS(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three NATS servers")
	}
	t.Parallel()
	cluster := natscluster.Start(t, 3)
	config := func(dir string) Config {
		return Config{Location: dir, Accounts: auth.Development(), Log: slog.New(slog.DiscardHandler), NATSTables: true,
			NATS: natsserver.Config{URL: cluster.URL(), Replicas: 3}}
	}
	metrics := prometheus.NewRegistry()
	serve := func(c Config) *aztables.Client {
		t.Helper()
		s := check.Must(Start(c))(t)
		t.Cleanup(func() { _ = s.Stop(context.Background()) })
		client := check.Must(aztables.NewServiceClientFromConnectionString(s.ConnectionString(), &aztables.ClientOptions{
			ClientOptions: policy.ClientOptions{Retry: patientRetries}}))(t)
		return client.NewClient("people")
	}
	first := config(t.TempDir())
	first.Metrics = metrics
	a, b := serve(first), serve(config(t.TempDir()))
	madeBy(a.CreateTable(t.Context(), nil))(t)
	put := func(table *aztables.Client, row string) {
		t.Helper()
		madeBy(table.AddEntity(t.Context(), fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":%q}`, row), nil))(t)
	}
	put(a, "1")
	check.Must(b.GetEntity(t.Context(), "p", "1", nil))(t)
	cluster.Stop(cluster.WaitLeads("LAZULI_LOG_tables"))
	put(b, "2")
	check.Must(a.GetEntity(t.Context(), "p", "2", nil))(t)
	c := serve(config(t.TempDir()))
	check.Must(c.GetEntity(t.Context(), "p", "1", nil))(t)
	families := check.Must(metrics.Gather())(t)
	found := false
	for _, f := range families {
		found = found || f.GetName() == "lazuli_log_applied_sequence" && f.GetMetric()[0].GetGauge().GetValue() > 0
	}
	if !found {
		t.Error("no metrics of the log")
	}

	alone := t.TempDir()
	s := check.Must(Start(Config{Location: alone, Accounts: auth.Development(), Log: slog.New(slog.DiscardHandler)}))(t)
	client := check.Must(aztables.NewServiceClientFromConnectionString(s.ConnectionString(), nil))(t)
	check.Must(client.NewClient("own").CreateTable(t.Context(), nil))(t)
	check.OK(t, s.Stop(t.Context()))
	if s, err := Start(config(alone)); err == nil || !errors.Is(err, store.ErrOtherLog) {
		t.Errorf("a folder with tables of its own: %v", err)
		if s != nil {
			_ = s.Stop(t.Context())
		}
	}
}
