package nodebench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// adminToken is the token of the admin listeners: nodes that have accounts of a file refuse callers without one.
var adminToken = rand.Text()

// table is the table of which the clients insert the entities.
const table = "inserted"

// cluster is a cluster that is measured.
type cluster struct {
	name   string
	nodes  *killrig.Cluster
	stacks [][]*bench.Stack // by account and node
	ends   []func() error   // what the end of the nodes' processes leaves to do, in order

	inserters []*bench.Inserter // all that clients have had, by number
	turns     []turn
	idle      turn // without clients; zero if that was not measured
}

// start starts a cluster in a new folder below c.Folder.
func (c *Config) start(ctx context.Context, name string, nodes int, command func(...string) *exec.Cmd) (
	_ *cluster, err error) {
	folder, err := os.MkdirTemp(c.Folder, "lazuli-nodes-")
	if err != nil {
		return nil, err
	}
	s := &cluster{name: name, ends: []func() error{func() error { return os.RemoveAll(folder) }}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	for i := range nodes {
		// The folders of the nodes, as killrig names them.
		mount, files := filepath.Join(folder, fmt.Sprint("n", i+1)), filepath.Join(folder, fmt.Sprint("files-", i+1))
		if c.Sync == 0 {
			break
		}
		if err := errors.Join(disk.MkdirAll(mount, 0o700), disk.MkdirAll(files, 0o700)); err != nil {
			return nil, err
		}
		unmount, err := slowDisk(mount, files, c.Sync)
		if err != nil {
			return nil, err
		}
		s.ends = append([]func() error{unmount}, s.ends...)
	}
	accounts, more, err := c.accounts(folder)
	if err != nil {
		return nil, err
	}
	if c.Profiles != "" {
		more = append(more, "--pprof")
	}
	start := func(args ...string) *exec.Cmd {
		node := command(append(args, more...)...)
		node.Env = append(node.Environ(), "LAZULI_ADMIN_TOKEN="+adminToken)
		return node
	}
	if s.nodes, err = killrig.StartCluster(ctx, folder, nodes, start); err != nil {
		return nil, err
	}
	for _, account := range accounts {
		var stacks []*bench.Stack
		for _, n := range s.nodes.Nodes {
			stack, err := bench.ParseConnectionString(n.ConnectionStringOf(account, auth.DevelopmentKey))
			if err != nil {
				return nil, err
			}
			stacks = append(stacks, stack)
		}
		if err := bench.CreateTable(stacks[0], table); err != nil {
			return nil, err
		}
		s.stacks = append(s.stacks, stacks)
	}
	// After the start, which is not measured and would take long.
	for i, n := range s.nodes.Nodes {
		if c.Share == 0 {
			break
		}
		end, err := limit(n.Pid(), fmt.Sprintf("%s-%d", filepath.Base(folder), i+1), c.Share)
		if err != nil {
			return nil, err
		}
		s.ends = append([]func() error{end}, s.ends...)
	}
	return s, nil
}

// accounts returns the accounts that clients use, and the options of the nodes about them: the development account, or
// one in each shard.
func (c *Config) accounts(folder string) (names, options []string, err error) {
	if c.Shards < 2 {
		return []string{auth.DevelopmentAccount}, nil, nil
	}
	placed, err := shardmap.New(c.Shards)
	if err != nil {
		return nil, nil, err
	}
	names = make([]string, c.Shards)
	var lines []byte
	for i, left := 0, c.Shards; left > 0; i++ {
		name := fmt.Sprint("account", i)
		if shard := placed.Of(shardmap.Table, name); names[shard] == "" {
			names[shard] = name
			lines = fmt.Appendf(lines, "%s:%s\n", name, auth.DevelopmentKey)
			left--
		}
	}
	file := filepath.Join(folder, "accounts")
	return names, []string{"--shards", strconv.Itoa(c.Shards), "--cluster-copies", "3", "--accounts-file", file},
		os.WriteFile(file, lines, 0o600)
}

// stack returns that of a client at a node. Clients with following numbers have accounts in shards that are far apart,
// so that it is chance whether the node of a client has its account.
func (s *cluster) stack(node, client int) *bench.Stack {
	const step = 7 // no divisor of a usual number of shards
	return s.stacks[(client*step+client/len(s.stacks))%len(s.stacks)][node]
}

// pause stops the processes of the nodes, resume lets them go on, and waits until each account can be written to.
func (s *cluster) pause() {
	for _, n := range s.nodes.Nodes {
		n.Pause()
	}
}

func (s *cluster) resume(ctx context.Context) error {
	for _, n := range s.nodes.Nodes {
		n.Resume()
	}
	// Each node counts the others as lost for a moment, and elects leaders.
	ctx, cancel := context.WithTimeoutCause(ctx, resumeTimeout, errResume)
	defer cancel()
	for account := range s.stacks {
		for node := range s.stacks[account] {
			work := bench.NewInserter(s.stacks[account][node], table, len(s.inserters))
			s.inserters = append(s.inserters, work)
			for {
				err := work.Insert()
				if err == nil {
					break
				}
				if ctx.Err() != nil {
					return fmt.Errorf("%s: %w: %w", s.name, context.Cause(ctx), err)
				}
				time.Sleep(failurePause)
			}
			work.Close()
		}
	}
	return s.nodes.Whole(ctx)
}

// resumeTimeout is the time that a cluster may take until it serves again.
const resumeTimeout = 2 * time.Minute

var errResume = errors.New("the cluster does not go on within " + resumeTimeout.String())

// close stops the nodes and removes their folder.
func (s *cluster) close() error {
	for _, i := range s.inserters {
		i.Close()
	}
	if s.nodes != nil {
		s.nodes.Close()
	}
	var errs []error
	for _, end := range s.ends {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// counts are what a node has counted since its start.
type counts struct {
	processor                  time.Duration
	appends, conflicts, passed float64
}

func (a counts) minus(b counts) counts {
	return counts{a.processor - b.processor, a.appends - b.appends, a.conflicts - b.conflicts, a.passed - b.passed}
}

// counts reads what all nodes have counted.
func (s *cluster) counts(ctx context.Context) ([]counts, error) {
	all := make([]counts, len(s.nodes.Nodes))
	for i, n := range s.nodes.Nodes {
		if !n.Running() {
			return nil, fmt.Errorf("node %s of %s ended: %w\n%s", n.Name, s.name, n.Err(), n.Output())
		}
		text, err := ask(ctx, n.Admin, "/metrics")
		if err != nil {
			return nil, fmt.Errorf("node %s of %s: %w", n.Name, s.name, err)
		}
		c := &all[i]
		c.processor = bench.ProcessorTime(n.Pid())
		c.appends = metric(text, `lazuli_log_appends_total{log="tables`, "")
		c.conflicts = metric(text, `lazuli_log_conflicts_total{log="tables`, "")
		c.passed = metric(text, `lazuli_log_forwarded_requests_total{log="tables`, `result="passed"`) +
			metric(text, `lazuli_front_requests_total{`, `result="passed"`)
	}
	return all, nil
}

// ask asks the admin listener of a node.
// The nodes that it asks have adminToken.
func ask(ctx context.Context, admin, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+path, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+adminToken)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, answer.Status, text)
	}
	return string(text), err
}

// profile writes the profiles of all nodes, of a turn that begins now. The function that it returns waits for that.
func (s *cluster) profile(ctx context.Context, c *Config, kind string) (wait func()) {
	var all sync.WaitGroup
	for _, n := range s.nodes.Nodes {
		all.Go(func() {
			path := fmt.Sprintf("/debug/pprof/profile?seconds=%.0f", math.Ceil(c.Turn.Seconds()))
			text, err := ask(ctx, n.Admin, path)
			if err == nil {
				name := strings.NewReplacer(" ", "-", ",", "").Replace(s.name + "-" + kind + "-" + n.Name)
				err = os.WriteFile(filepath.Join(c.Profiles, name+".pprof"), []byte(text), 0o600)
			}
			if err != nil {
				c.say("%s: no profile of %s: %v", s.name, n.Name, err)
			}
		})
	}
	return all.Wait
}

// metric returns the sum of the values whose names begin with a text and have another one, 0 where a program of before
// has none.
func metric(text, begins, has string) (sum float64) {
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.HasPrefix(name, begins) || !strings.Contains(name, has) {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			sum += v
		}
	}
	return sum
}
