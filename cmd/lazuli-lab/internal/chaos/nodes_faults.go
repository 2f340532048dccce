package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/killrig"
)

// The faults of a run.
const (
	faultKill      = "killed"
	faultPause     = "paused"
	faultCut       = "cut off"
	faultBlackHole = "black hole"
	faultRestart   = "restarted"
	faultFlip      = "bit flipped"
	faultFull      = "disk full"
	faultKillAll   = "all killed"
	faultPower     = "power lost"
	faultSlow      = "slow"
)

var nodeFaults = []string{faultKill, faultPause, faultCut, faultBlackHole, faultRestart, faultFlip, faultFull,
	faultKillAll, faultPower, faultSlow}

// NodeFaults returns the kinds of faults of a cluster. The last ones are those of a cluster whose shards are on a part
// of the nodes.
func NodeFaults() []string { return slices.Concat(nodeFaults, moveFaults) }

// IsMove reports whether a kind needs shards that are on a part of the nodes.
func IsMove(kind string) bool { return slices.Contains(moveFaults, kind) }

// A slow node stands still for slowStop, works for slowRun, and so on.
const (
	slowStop = 150 * time.Millisecond
	slowRun  = 30 * time.Millisecond
)

// fault makes a fault at a node and ends it.
func (r *nodesRun) fault(ctx context.Context, kind string, at int, length time.Duration) error {
	n := r.nodes[at]
	switch kind {
	case faultKill:
		n.Kill()
		pause(ctx, length)
		return n.Start()
	case faultKillAll:
		for _, n := range r.nodes {
			n.Kill()
		}
		for _, n := range r.nodes {
			if err := n.Start(); err != nil {
				return err
			}
		}
	case faultRestart:
		if err := n.Terminate(); err != nil {
			return err
		}
		return n.Start()
	case faultPause:
		n.Pause()
		pause(ctx, length)
		_ = n.Resume()
	case faultSlow:
		for begun := time.Now(); time.Since(begun) < length && ctx.Err() == nil; {
			n.Pause()
			pause(ctx, slowStop)
			_ = n.Resume()
			pause(ctx, slowRun)
		}
	case faultPower:
		n.Kill() // a process without power answers no more, not even with the errors of its disk
		if err := r.power.stop(); err != nil {
			return err
		}
		pause(ctx, length)
		if err := r.power.start(); err != nil {
			return err
		}
		return n.Start()
	case faultCut:
		r.web.Cut(at)
		pause(ctx, length)
		r.web.Restore(at)
	case faultBlackHole:
		r.web.Hold(at)
		pause(ctx, length)
		r.web.Restore(at)
	case faultFlip:
		return r.flip(ctx, at)
	case faultFull:
		if err := r.disk.fill(); err != nil {
			return err
		}
		pause(ctx, length)
		return r.disk.empty()
	}
	return nil
}

// flip kills a node, flips a bit of its streams or Raft logs, starts it, and replaces it when it has left the cluster.
// A bit whose change is not found does no harm, or the histories show it. Before that, all copies are whole: the node's
// own ones are lost, and a cluster of three promises nothing about two lost copies.
func (r *nodesRun) flip(ctx context.Context, at int) error {
	n := r.nodes[at]
	if err := r.loseCopies(ctx, n, r.nodes[(at+1)%len(r.nodes)]); err != nil {
		return err
	}
	path, err := r.streamFile(n)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := flipBit(path, r.rnd.Int64N(info.Size()), byte(1)<<r.rnd.IntN(8)); err != nil {
		return err
	}
	before := len(setAside(n))
	if err := n.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wholeTimeout, fmt.Errorf("not ready within %v", wholeTimeout))
	defer cancel()
	for !n.Ready(ctx) {
		if ctx.Err() != nil || !n.Running() {
			return nil // the run reports that the cluster is not whole
		}
		if len(setAside(n)) > before {
			r.report.Replaced++
			return r.replace(ctx, n, r.nodes[(at+1)%len(r.nodes)])
		}
		pause(ctx, 50*time.Millisecond)
	}
	return nil
}

// loseCopies kills a node whose copies are then damaged, when all copies are whole. No shard moves meanwhile: the next
// move may begin when the node is dead.
func (r *nodesRun) loseCopies(ctx context.Context, n, other *killrig.Node) error {
	if r.mover != nil {
		r.mover.busy.Lock()
		defer r.mover.busy.Unlock()
	}
	if err := r.awaitCopies(ctx, other); err != nil {
		return err
	}
	n.Kill()
	return nil
}

// awaitCopies waits until a node says that all streams have all of their copies.
func (r *nodesRun) awaitCopies(ctx context.Context, n *killrig.Node) error {
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	reason := "no answer"
	for {
		var status cluster.Status
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Admin+"/admin/cluster", nil)
		if err != nil {
			return err
		}
		if answer, err := r.admin.Do(request); err == nil {
			err = json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&status)
			answer.Body.Close()
			if err == nil && answer.StatusCode == http.StatusOK {
				if status.Copies.Short == 0 &&
					// A node that does not report has unknown copies, which must not count as complete.
					!slices.ContainsFunc(status.Nodes, func(at cluster.NodeStatus) bool { return at.Report == nil }) {
					return nil
				}
				reason = strings.Join(status.Copies.Examples, ", ")
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("streams without all of their copies after %v: %s", wholeTimeout, reason)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// streamFile returns a file of the node with records of streams or Raft logs.
func (r *nodesRun) streamFile(n *killrig.Node) (string, error) {
	var files []string
	err := filepath.WalkDir(filepath.Join(n.Folder, "cluster"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".blk" {
			if info, err := d.Info(); err == nil && info.Size() > 0 {
				files = append(files, path)
			}
		}
		return err
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("look for the streams of %s: %w", n.Name, err)
	case len(files) == 0:
		return "", fmt.Errorf("%s has no file of a stream", n.Name)
	}
	return files[r.rnd.IntN(len(files))], nil
}

// flipBit changes bits of a byte of a file.
func flipBit(path string, offset int64, mask byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, offset); err != nil {
		return err
	}
	b[0] ^= mask
	_, err = f.WriteAt(b, offset)
	return err
}

// setAside returns the damaged folders that a node has kept.
func setAside(n *killrig.Node) []string {
	list, _ := filepath.Glob(filepath.Join(n.Folder, "cluster.damaged-*"))
	return list
}

// replace removes a node from the cluster through another one, as `lazuli cluster leave` does.
func (r *nodesRun) replace(ctx context.Context, n, through *killrig.Node) error {
	reason := "no answer"
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodDelete,
			"http://"+through.Admin+"/admin/cluster/nodes/"+n.Name, nil)
		if err != nil {
			return err
		}
		if answer, err := r.admin.Do(request); ctx.Err() == nil && err != nil {
			reason = err.Error()
		} else if err == nil {
			text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
			answer.Body.Close()
			if answer.StatusCode == http.StatusNoContent {
				return nil
			}
			reason = strings.TrimSpace(string(text))
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s cannot be removed through %s within %v: %s\n%s", n.Name, through.Name, wholeTimeout, reason,
				through.Output())
		}
		pause(ctx, 500*time.Millisecond)
	}
}
