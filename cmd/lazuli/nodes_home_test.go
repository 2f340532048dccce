package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

var (
	homeRounds = flag.Int("home.rounds", 3, "how often TestClientsOfALostHome makes each fault")
	homeFaults = flag.String("home.faults", "stopped,cut,killed", "the faults of TestClientsOfALostHome")
)

const (
	// homeStopped is the time for which a home is stopped, or stays away, at most. It comes back homeSteady after the
	// clients of the others were answered again.
	homeStopped = 11 * time.Second
	homeSteady  = time.Second
	homeClients = 6 // of each of the other nodes
	// homeLimit is the time that clients of other nodes may wait for the next acknowledgement: an election takes 2.5 to
	// 4 seconds, and about one more if it needs a second round. On a busy machine one of twenty may take longer.
	homeLimit   = 5 * time.Second
	homeSlowest = 7 * time.Second
)

// The home of a log is stopped, cut off from the others, or killed, while clients of the other nodes insert entities.
// It is measured how long none of them gets an acknowledgement; and each acknowledged entity is there at the end. It
// runs only with LAZULI_TEST_KILL_NODES.
func TestClientsOfALostHome(t *testing.T) {
	web := check.Must(killrig.NewWeb(3))(t)
	defer web.Close()
	cluster := startNodesBy(t, func(ctx context.Context, folder string, command func(...string) *exec.Cmd) (
		*killrig.Cluster, error) {
		return killrig.StartOnWeb(ctx, folder, web, command)
	})
	service := tablesOf(t, cluster.Nodes[0])
	_, err := service.CreateTable(t.Context(), "kept", nil)
	check.OK(t, err)
	load := &homeLoad{t: t, web: web}
	for _, fault := range strings.Split(*homeFaults, ",") {
		var gaps []time.Duration
		for range *homeRounds {
			gap := load.round(cluster, fault)
			gaps = append(gaps, gap)
			t.Logf("a home was %s: %v without an acknowledgement", fault, gap.Round(10*time.Millisecond))
		}
		slices.Sort(gaps)
		late := 0
		for _, gap := range gaps {
			if gap > homeLimit {
				late++
			}
		}
		t.Logf("%s %d times: %v, median %v, %d above %v", fault, len(gaps), gaps, gaps[len(gaps)/2], late, homeLimit)
		if late > 1+len(gaps)/20 || gaps[len(gaps)-1] > homeSlowest {
			t.Errorf("%d of %d times no client of the other nodes got an acknowledgement for more than %v: %v", late, len(gaps),
				homeLimit, gaps)
		}
	}
	load.check(service)
}

// homeLoad counts what the clients have done.
type homeLoad struct {
	t       *testing.T
	web     *killrig.Web
	clients int // that have run

	mu      sync.Mutex // guards the rest
	acked   []string   // row keys
	unknown int
}

// round stops the home of the tables while clients of the other nodes insert, and returns the longest time without an
// acknowledgement.
func (l *homeLoad) round(cluster *killrig.Cluster, fault string) time.Duration {
	l.t.Helper()
	home := homeOf(l.t, cluster)
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	var last, longest atomic.Int64 // Unix nanoseconds of the last acknowledgement; longest since the fault
	var faulty atomic.Bool
	var clients sync.WaitGroup
	for _, n := range cluster.Nodes {
		if n == home {
			continue
		}
		table := tablesOf(l.t, n).NewClient("kept")
		for range homeClients {
			l.clients++
			name := fmt.Sprintf("%04d", l.clients)
			clients.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					row := fmt.Sprintf("%s-%06d", name, i)
					_, err := table.AddEntity(ctx, fmt.Appendf(nil, `{"PartitionKey":%q,"RowKey":%q}`, name, row), nil)
					l.note(row, err)
					if now := time.Now().UnixNano(); err == nil {
						if gap := now - last.Swap(now); faulty.Load() && gap > longest.Load() {
							longest.Store(gap)
						}
					}
				}
			})
		}
	}
	time.Sleep(2 * time.Second) // of usual work
	last.Store(time.Now().UnixNano())
	faulty.Store(true)
	at := slices.Index(cluster.Nodes, home)
	switch fault {
	case "stopped":
		home.Pause()
	case "cut":
		l.web.Cut(at)
	case "killed":
		home.Kill()
	default:
		l.t.Fatalf("there is no fault %q", fault)
	}
	// What was under way may still be acknowledged, so the first acknowledgement is not the end of the pause. No election
	// is over before homeSteady.
	began := time.Now()
	for steady := time.Now(); time.Since(began) < homeStopped && time.Since(steady) < homeSteady; {
		time.Sleep(10 * time.Millisecond)
		if acked := time.Unix(0, last.Load()); time.Since(acked) > homeSteady/2 || acked.Sub(began) < homeSteady {
			steady = time.Now()
		}
	}
	faulty.Store(false)
	gap := time.Duration(max(longest.Load(), time.Now().UnixNano()-last.Load()))
	cancel()
	switch fault {
	case "stopped":
		check.OK(l.t, home.Resume())
	case "cut":
		l.web.Restore(at)
	default:
		check.OK(l.t, home.Start())
	}
	clients.Wait()
	check.OK(l.t, cluster.Whole(l.t.Context()))
	return gap
}

func (l *homeLoad) note(row string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.acked = append(l.acked, row)
	} else {
		l.unknown++
	}
}

// check finds every acknowledged entity.
func (l *homeLoad) check(service *aztables.ServiceClient) {
	l.t.Helper()
	there := map[string]bool{}
	keys := "RowKey"
	pager := service.NewClient("kept").NewListEntitiesPager(&aztables.ListEntitiesOptions{Select: &keys})
	for pager.More() {
		page, err := pager.NextPage(l.t.Context())
		check.OK(l.t, err)
		for _, e := range page.Entities {
			there[regexp.MustCompile(`"RowKey":"([^"]*)"`).FindStringSubmatch(string(e))[1]] = true
		}
	}
	lost := 0
	for _, row := range l.acked {
		if !there[row] {
			lost++
		}
	}
	l.t.Logf("%d acknowledged entities, %d requests without an acknowledgement, %d entities", len(l.acked), l.unknown,
		len(there))
	if lost > 0 || len(l.acked) == 0 {
		l.t.Errorf("%d of %d acknowledged entities are lost", lost, len(l.acked))
	}
}

// tablesOf returns a client of a node that repeats nothing.
func tablesOf(t *testing.T, n *killrig.Node) *aztables.ServiceClient {
	t.Helper()
	return check.Must(aztables.NewServiceClientFromConnectionString(n.ConnectionString(), &aztables.ClientOptions{
		ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}))(t)
}

// homeOf waits until all nodes name the same home of the tables.
func homeOf(t *testing.T, cluster *killrig.Cluster) (home *killrig.Node) {
	t.Helper()
	check.Eventually(t, func() bool {
		names := map[string]bool{}
		for _, n := range cluster.Nodes {
			_, port, err := net.SplitHostPort(n.Admin)
			check.OK(t, err)
			_, text := runCommand(t, "cluster", "status", "--admin-port", port)
			if m := regexp.MustCompile(`tables at (\S+?)[,\s]`).FindStringSubmatch(text); m != nil {
				names[m[1]] = true
			} else {
				return false
			}
		}
		for _, n := range cluster.Nodes {
			if names[n.Name] {
				home = n
			}
		}
		return len(names) == 1 && home != nil
	}, "all nodes name one home of the tables")
	return home
}
