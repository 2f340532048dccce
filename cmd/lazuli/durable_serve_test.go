package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// A hub of another engine is refused before the endpoint opens, also as one of several.
func TestDurableServeRefusesHubsOfAnotherEngine(t *testing.T) {
	server := lazulitest.Start(t)
	t.Setenv(connstr.Variable, server.ConnectionString())
	storage, err := workers.OpenStorage(server.ConnectionString())
	check.OK(t, err)
	_, err = storage.Tables.CreateTable(t.Context(), "ShopPartitions", nil) // DTFx makes this table.
	check.OK(t, err)
	for _, flags := range [][]string{{"--durable-hub", "Shop"}, {"--durable-hubs", "orders,shop"}} {
		var out, log testlog.Buffer
		cmd := newDurableServeCommand(&Main{})
		cmd.SetArgs(append(flags, "--durable-listen", "127.0.0.1:0"))
		cmd.SetOut(&out)
		cmd.SetErr(&log)
		err := cmd.ExecuteContext(t.Context())
		if !errors.Is(err, record.ErrForeignHub) || !strings.Contains(err.Error(), "--durable-hub") {
			t.Errorf("%q ends with %v", flags, err)
		}
		if strings.Contains(out.String(), "Durable workflows at") {
			t.Errorf("%q has opened the endpoint", flags)
		}
	}
}
