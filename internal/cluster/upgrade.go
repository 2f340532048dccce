package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
)

// ErrNotUpgraded: the format of the cluster's data cannot rise yet.
var ErrNotUpgraded = errors.New("the cluster cannot take a newer format yet")

// Upgrade describes an upgrade of a cluster to a release with a newer format.
type Upgrade struct {
	// Format is the format of the cluster's data, and Newest the newest one that the programs of all nodes understand.
	// They differ while an upgrade is not finished: each node can go back to the release before.
	Format int `json:"format"`
	Newest int `json:"newest"`
	// Nodes has the newest format that each node understands, by name; 0 for one that did not answer, and Problems says
	// why.
	Nodes    map[string]int    `json:"nodes"`
	Problems map[string]string `json:"problems,omitempty"`
}

// Upgrade returns how far an upgrade has come. With finish it makes [Upgrade.Newest] the format of the cluster's data:
// from then on releases that do not understand it are refused, and no node can go back. It may be repeated. Errors:
// [ErrNotClustered]; with finish also [ErrNotUpgraded] if a member does not answer.
func (n *Node) Upgrade(ctx context.Context, finish bool) (*Upgrade, error) {
	if n == nil {
		return nil, ErrNotClustered
	}
	status, err := n.Status(ctx)
	if err != nil {
		return nil, err
	}
	out := &Upgrade{Format: status.Format, Newest: peering.Supported.Newest, Nodes: map[string]int{},
		Problems: map[string]string{}}
	for _, at := range status.Nodes {
		switch {
		case at.Report != nil:
			out.Nodes[at.Name] = at.Report.Format
			out.Newest = min(out.Newest, at.Report.Format)
		// A name that has never joined has no data, and no release to go back to.
		case n.site.ServerNameOf(at.Name) != "":
			out.Nodes[at.Name] = 0
			out.Problems[at.Name] = at.Problem
		}
	}
	if !finish || out.Newest <= out.Format && len(out.Problems) == 0 {
		return out, nil
	}
	// A node that is away may run the release before, and would be locked out with its copies.
	for name, problem := range out.Problems {
		return out, fmt.Errorf("%w: node %s does not answer: %s", ErrNotUpgraded, name, problem)
	}
	// This node last, so that the command can be run again here and goes on where it failed. What the others have taken
	// reaches the rest in any case, see [peering.Site.Raise].
	for name := range out.Nodes {
		if name == n.site.Node() {
			continue
		}
		if err := n.tell(ctx, name, aboutRaise, out.Newest); err != nil {
			return out, fmt.Errorf("%w: node %s has not taken format %d; run the command again: %w", ErrNotUpgraded, name,
				out.Newest, err)
		}
	}
	if err := n.site.Raise(out.Newest); err != nil {
		return out, err
	}
	out.Format = n.site.Format()
	return out, nil
}
