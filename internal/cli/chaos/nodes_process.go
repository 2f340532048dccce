package chaos

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/cli/childproc"
)

// nodeTimeout bounds a request to a node: a stopped process does not answer.
const nodeTimeout = 5 * time.Second

// clusterNode is a node of the cluster. Its addresses stay the same over restarts.
type clusterNode struct {
	name, folder              string
	queue, table, admin, blob string // host:port
	args                      []string
	command                   func(args ...string) *exec.Cmd
	http                      *http.Client
	process                   *process
	reason                    string // why it was last not ready
}

// start starts the process. It does not wait until the node is ready.
func (n *clusterNode) start() error {
	_, queuePort, _ := net.SplitHostPort(n.queue)
	_, tablePort, _ := net.SplitHostPort(n.table)
	_, blobPort, _ := net.SplitHostPort(n.blob)
	_, adminPort, _ := net.SplitHostPort(n.admin)
	args := append([]string{"serve", "--location", n.folder, "--blob-port", blobPort, "--queue-port", queuePort, "--table-port", tablePort, "--admin-port", adminPort, "--admin-ui", "off"}, n.args...)
	p, err := childproc.Start(n.command(args...), io.Discard)
	if err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	n.process = &process{Process: p, http: n.http}
	return nil
}

func (n *clusterNode) kill() {
	if n.process != nil {
		n.process.resume()
		n.process.kill()
	}
}

// ready asks the node whether it serves.
func (n *clusterNode) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := n.http.Do(request)
	if err != nil {
		n.reason = err.Error()
		return false
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
	n.reason = string(text)
	return answer.StatusCode == http.StatusOK
}

// given are the addresses that freeAddress has returned: no process listens there yet.
var given sync.Map

// freeAddress returns an address on loopback whose port is likely to stay free while no process listens there: it is outside of the range from which
// systems choose ports.
func freeAddress() (string, error) {
	var err error
	for range 100 {
		address := fmt.Sprint("127.0.0.1:", 20000+rand.IntN(10000))
		var l net.Listener
		if _, taken := given.LoadOrStore(address, true); taken {
			continue
		}
		if l, err = net.Listen("tcp", address); err == nil {
			l.Close()
			return address, nil
		}
	}
	return "", fmt.Errorf("no free port: %w", err)
}
