package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// BenchmarkShardInserts inserts entities into tables of twelve accounts at the same time, with one shard and with four.
func BenchmarkShardInserts(b *testing.B) {
	for _, shards := range []int{1, 4} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			_, tenants := benchShards(b, shards)
			report(b, each(b, tenants, b.N/len(tenants)+1))
		})
	}
}

// BenchmarkNodeShardInserts is BenchmarkShardInserts with three nodes, of which each has a third of the clients.
func BenchmarkNodeShardInserts(b *testing.B) {
	for _, shards := range []int{1, 4} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			c := newTestCluster(b, 3)
			for i := range c.configs {
				c.configs[i].Accounts, c.configs[i].Shards = benchAccounts(b), shards
			}
			c.start(0, 1, 2)
			tenants := map[string]*tenant{}
			for i, name := range benchAccounts(b).Names() {
				x := newTenantWith(b, c.nodes[i%3].ConnectionStringOf(name, otherKey), patientRetries)
				check.Must(x.tables.CreateTable(b.Context(), "goods", nil))(b)
				tenants[name] = x
			}
			report(b, each(b, tenants, b.N/len(tenants)+1))
		})
	}
}

// BenchmarkSlowNeighbour is BenchmarkShardInserts beside an account whose changes take 100 ms each. p99-ms is that of
// the accounts in other shards, or of all others with one shard.
func BenchmarkSlowNeighbour(b *testing.B) {
	for _, shards := range []int{1, 4} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			s, tenants := benchShards(b, shards)
			slow := s.services.Load().of(wire.Table, "shop00")
			for name := range tenants {
				if name == "shop00" || shards > 1 && s.services.Load().of(wire.Table, name) == slow {
					delete(tenants, name)
				}
			}
			ctx, cancel := context.WithCancel(b.Context())
			var busy sync.WaitGroup
			busy.Go(func() {
				for ctx.Err() == nil {
					_ = slow.tables.State.Database().Update(func(*store.Tx) error {
						time.Sleep(100 * time.Millisecond)
						return nil
					})
				}
			})
			times := each(b, tenants, b.N/len(tenants)+1)
			cancel()
			busy.Wait()
			report(b, times)
		})
	}
}

func report(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	b.ReportMetric(times[len(times)*99/100].Seconds()*1000, "p99-ms")
	b.ReportMetric(times[len(times)/2].Seconds()*1000, "p50-ms")
}

// benchAccounts are twelve accounts, which are spread over all shards.
func benchAccounts(b *testing.B) *auth.Accounts {
	b.Helper()
	_, accounts, err := spreadAccounts()
	check.OK(b, err)
	return accounts
}

// benchShards starts a server that syncs, whose accounts have a table each.
func benchShards(b *testing.B, shards int) (*Server, map[string]*tenant) {
	b.Helper()
	accounts := benchAccounts(b)
	s := check.Must(Start(Config{Location: b.TempDir(), Shards: shards, Accounts: accounts,
		Log: slog.New(slog.DiscardHandler)}))(b)
	b.Cleanup(func() { check.OK(b, s.Stop(context.Background())) })
	tenants := map[string]*tenant{}
	for _, name := range accounts.Names() {
		tenants[name] = newTenant(b, s.ConnectionStringOf(name, otherKey))
		check.Must(tenants[name].tables.CreateTable(b.Context(), "goods", nil))(b)
	}
	return s, tenants
}

// each inserts n entities for each tenant, all tenants at the same time, and returns how long each insert took.
func each(b *testing.B, tenants map[string]*tenant, n int) (times []time.Duration) {
	b.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	b.ResetTimer()
	for _, x := range tenants {
		all.Go(func() {
			table := x.tables.NewClient("goods")
			mine := make([]time.Duration, 0, n)
			for i := range n {
				began := time.Now()
				if _, err := table.AddEntity(b.Context(), fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":"%d"}`, i),
					nil); err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			times = append(times, mine...)
			mu.Unlock()
		})
	}
	all.Wait()
	b.StopTimer()
	return times
}
