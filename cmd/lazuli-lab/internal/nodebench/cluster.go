package nodebench

import (
	"context"
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
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// table is the table of which the clients insert the entities.
const table = "inserted"

// cluster is a cluster that is measured.
type cluster struct {
	name   string
	nodes  *killrig.Cluster
	stacks []*bench.Stack // by node
	ends   []func() error // what the end of the nodes' processes leaves to do, in order

	inserters []*bench.Inserter // all that clients have had, by number
	turns     []turn
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
	start := command
	if c.Profiles != "" {
		start = func(args ...string) *exec.Cmd { return command(append(args, "--pprof")...) }
	}
	if s.nodes, err = killrig.StartCluster(ctx, folder, nodes, start); err != nil {
		return nil, err
	}
	for i, n := range s.nodes.Nodes {
		// After the start, which is not measured and would take long.
		if c.Share > 0 {
			end, err := limit(n.Pid(), fmt.Sprintf("%s-%d", filepath.Base(folder), i+1), c.Share)
			if err != nil {
				return nil, err
			}
			s.ends = append([]func() error{end}, s.ends...)
		}
		stack, err := bench.ParseConnectionString(n.ConnectionString())
		if err != nil {
			return nil, err
		}
		s.stacks = append(s.stacks, stack)
	}
	return s, bench.CreateTable(s.stacks[0], table)
}

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
		c.appends = metric(text, `lazuli_log_appends_total{log="tables"}`)
		c.conflicts = metric(text, `lazuli_log_conflicts_total{log="tables"}`)
		c.passed = metric(text, `lazuli_log_forwarded_requests_total{log="tables",result="passed"}`)
	}
	return all, nil
}

// ask asks the admin listener of a node.
func ask(ctx context.Context, admin, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+path, nil)
	if err != nil {
		return "", err
	}
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

// metric returns a value, 0 for one that a program of before does not have.
func metric(text, name string) float64 {
	_, rest, _ := strings.Cut("\n"+text, "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return 0
	}
	return v
}
