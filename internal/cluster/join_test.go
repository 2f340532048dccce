package cluster

import (
	"net/url"
	"slices"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A server gets other addresses of nodes while it runs: its own clients stay connected, and a node
// whose address is taken away and given back is connected again.
func TestRoutesOfARunningServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := newCluster(t)
	c.start(t, "n1", "n2", "n3")
	n := c.nodes["n1"]
	all := n.site.Routes()
	for _, routes := range [][]*url.URL{all, all[:2], all} {
		n.server.SetRoutes(routes)
		check.OK(t, n.server.Conn().Flush())
	}
	if s := n.server.Conn().Stats(); s.Reconnects > 0 {
		t.Errorf("the node's own connection was lost %d times", s.Reconnects)
	}
	check.Eventually(t, func() bool {
		return slices.Equal(n.connectedNodes(), []string{"n1", "n2", "n3"}) ||
			slices.Equal(n.connectedNodes(), []string{"n2", "n3"})
	}, "all nodes are connected")
}
