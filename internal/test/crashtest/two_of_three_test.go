package crashtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

var (
	twoKills  = flag.Int("two-kills", 0, "kills of two of three nodes (default: 1, or 20 with "+check.FullVariable+")")
	twoStream = flag.Int("two-stream", 0, "MiB in the stream before the first of them (default: 8, or 200)")
)

// wedged is the time without an acknowledgement after which the cluster counts as one that stays unavailable, also on a
// slow machine.
const wedged = 5 * time.Minute

// TestKillTwoOfThree kills two of three nodes at once under load, with a large stream, and starts them again: the
// cluster must accept writes again by itself, and have what it had acknowledged. A cluster of nats-server has stayed
// without a leader after that, see https://github.com/nats-io/nats-server/issues/8519.
func TestKillTwoOfThree(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	kills, size := *twoKills, *twoStream
	if kills == 0 {
		kills = check.Size(1, 20)
	}
	if size == 0 {
		size = check.Size(8, 200)
	}
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cluster, err := killrig.StartCluster(t.Context(), folder, 3,
		func(args ...string) *exec.Cmd { return exec.Command(binary, args...) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	rows := newRowWriters(t, cluster.ConnectionString(), 4)
	rows.fill(t, size<<20)
	seed := chosenSeed()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var waits []time.Duration
	for round := range kills {
		stop := rows.write(t)
		before := rows.total()
		check.Eventually(t, func() bool { return rows.total() >= before+20 }, "no rows are inserted")
		var two sync.WaitGroup
		for _, i := range rnd.Perm(3)[:2] {
			two.Go(cluster.Nodes[i].Kill)
		}
		two.Wait()
		<-time.After(time.Duration(rnd.IntN(3000)) * time.Millisecond) // how long they are down is a part of the fault
		for _, n := range cluster.Nodes {
			if !n.Running() {
				check.OK(t, n.Start())
			}
		}
		began := time.Now()
		before = rows.total()
		for rows.total() == before {
			if time.Since(began) > wedged {
				for _, n := range cluster.Nodes {
					n.Ready(t.Context())
					t.Logf("%s: %s", n.Name, n.Reason())
				}
				t.Fatalf("round %d: no acknowledgement within %v", round, wedged)
			}
			<-time.After(5 * time.Millisecond)
		}
		waits = append(waits, time.Since(began))
		check.OK(t, cluster.Whole(t.Context()))
		stop()
		rows.verify(t, rnd)
		t.Logf("round %d: the first acknowledgement came %v after the start, the nodes were ready after %v, %d rows",
			round, waits[round].Round(time.Millisecond), time.Since(began).Round(time.Millisecond), rows.total())
	}
	slices.Sort(waits)
	t.Logf("%d rounds with a stream of %d MiB and more: first acknowledgement after %v at the median, %v at the longest",
		kills, size, waits[len(waits)/2].Round(time.Millisecond), waits[len(waits)-1].Round(time.Millisecond))
	for _, n := range cluster.Nodes {
		check.OK(t, n.Terminate())
		fsckClean(t, filepath.Join(folder, n.Name))
	}
}

// rowWriters insert rows with numbers, each into a partition of its own.
type rowWriters struct {
	table *aztables.Client
	acked []atomic.Int64 // by writer: rows up to this number exist
}

func newRowWriters(t *testing.T, connection string, writers int) *rowWriters {
	t.Helper()
	settings := check.Must(connstr.Parse(connection))(t)
	s := &server{table: settings.TableEndpoint,
		client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
	cred := check.Must(aztables.NewSharedKeyCredential(account, key))(t)
	w := &rowWriters{acked: make([]atomic.Int64, writers), table: check.Must(aztables.NewClientWithSharedKey(
		s.table+"/rows", cred, &aztables.ClientOptions{ClientOptions: s.options()}))(t)}
	_, err := w.table.CreateTable(t.Context(), nil)
	check.OK(t, err)
	return w
}

func (w *rowWriters) total() (n int64) {
	for i := range w.acked {
		n += w.acked[i].Load()
	}
	return n
}

// insert inserts the next row of a writer. That it exists already means that an earlier attempt was successful.
func (w *rowWriters) insert(ctx context.Context, writer int, size int) error {
	n := w.acked[writer].Load() + 1
	entity := fmt.Appendf(nil, `{"PartitionKey":"p%d","RowKey":"%d"`, writer, n)
	for i := 0; size > 0; i++ {
		part := min(size, 30_000) // a string of an entity has at most 64 KiB in UTF-16
		entity = fmt.Appendf(entity, `,"V%d":"%s"`, i, strings.Repeat("x", part))
		size -= part
	}
	_, err := w.table.AddEntity(ctx, append(entity, '}'), nil)
	if err = unless(err, "EntityAlreadyExists"); err == nil {
		w.acked[writer].Store(n)
	}
	return err
}

// fill inserts rows of a total size, each until it is acknowledged.
func (w *rowWriters) fill(t *testing.T, size int) {
	t.Helper()
	const each = 300_000
	var g errgroup.Group
	for writer := range w.acked {
		g.Go(func() error {
			for range size / each / len(w.acked) {
				err := w.insert(t.Context(), writer, each)
				for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); {
					err = w.insert(t.Context(), writer, each)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	check.OK(t, g.Wait())
}

// write inserts small rows until stop is called. Errors are those of a cluster without two of its nodes.
func (w *rowWriters) write(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for writer := range w.acked {
		running.Go(func() {
			for ctx.Err() == nil {
				var refused *azcore.ResponseError
				if err := w.insert(ctx, writer, 200); errors.As(err, &refused) && refused.StatusCode < 500 {
					t.Errorf("writer %d: %v", writer, err)
					return
				}
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

// verify reads the last rows of each writer, and some others.
func (w *rowWriters) verify(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	for writer := range w.acked {
		last := w.acked[writer].Load()
		for i := range int64(10) {
			for _, n := range []int64{last - i, 1 + rnd.Int64N(last)} {
				if n <= 0 {
					continue
				}
				var err error
				check.Eventually(t, func() bool {
					// A node may have lost its leader again; that a row is not there is an answer.
					_, err = w.table.GetEntity(t.Context(), fmt.Sprint("p", writer), fmt.Sprint(n), nil)
					return err == nil || bloberror.HasCode(err, "ResourceNotFound", "TableNotFound")
				}, "row %d of writer %d is not read", n, writer)
				if err != nil {
					t.Fatalf("row %d of writer %d was acknowledged: %v", n, writer, err)
				}
			}
		}
	}
}
