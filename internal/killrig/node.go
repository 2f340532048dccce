package killrig

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/freeport"
)

// Node is a node of a cluster. Its addresses stay the same over restarts. A method must not be called while another one
// runs, except Ready.
type Node struct {
	// Name is the name in the cluster, Folder the data folder.
	Name, Folder string
	// Blob, Queue, Table and Admin are the addresses of the listeners, host:port.
	Blob, Queue, Table, Admin string
	// Args are the arguments of `lazuli serve` about the cluster.
	Args []string
	// Command returns a command of lazuli.
	Command func(args ...string) *exec.Cmd
	// HTTP asks the node whether it is ready.
	HTTP *http.Client

	*Process // nil before Start

	mu     sync.Mutex // guards reason
	reason string
}

// NewNode returns a node with free addresses.
func NewNode(name, folder string, command func(args ...string) *exec.Cmd, client *http.Client) (*Node, error) {
	n := &Node{Name: name, Folder: folder, Command: command, HTTP: client}
	for _, address := range []*string{&n.Queue, &n.Table, &n.Admin, &n.Blob} {
		var err error
		if *address, err = freeport.Address(); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// ConnectionString returns that of the development account at the node.
func (n *Node) ConnectionString() string {
	return n.ConnectionStringOf(auth.DevelopmentAccount, auth.DevelopmentKey)
}

// ConnectionStringOf returns that of an account at the node.
func (n *Node) ConnectionStringOf(account, key string) string {
	return connectionString(account, key, n.Blob, n.Queue, n.Table)
}

// Start starts the process. It does not wait until the node is ready. What the process logs is added to the file Folder
// with the ending .log.
func (n *Node) Start() error {
	args := []string{"serve", "--location", n.Folder, "--admin-ui", "off"}
	for flag, address := range map[string]string{"--blob-port": n.Blob, "--queue-port": n.Queue, "--table-port": n.Table,
		"--admin-port": n.Admin} {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		args = append(args, flag, port)
	}
	log, err := os.OpenFile(n.Folder+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	cmd := n.Command(append(args, n.Args...)...)
	cmd.Stderr = log
	p, err := Start(cmd, io.Discard)
	if err != nil {
		log.Close()
		return fmt.Errorf("start %s: %w", n.Name, err)
	}
	go func() {
		<-p.Exited()
		log.Close()
	}()
	n.Process = p
	return nil
}

// Kill kills the process, also a paused one, and waits until it has exited.
func (n *Node) Kill() {
	if n.Process != nil {
		n.Process.Kill()
		n.HTTP.CloseIdleConnections()
	}
}

// Terminate stops the process, which must exit without an error.
func (n *Node) Terminate() error {
	defer n.HTTP.CloseIdleConnections()
	return n.Process.Terminate()
}

// Ready asks the node whether it serves.
func (n *Node) Ready(ctx context.Context) bool {
	ok, reason := n.ask(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reason = reason
	return ok
}

// Reason returns why the node was not ready when it was last asked.
func (n *Node) Reason() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.TrimSpace(n.reason)
}

func (n *Node) ask(ctx context.Context) (ok bool, text string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Admin+"/readyz", nil)
	if err != nil {
		return false, err.Error()
	}
	answer, err := n.HTTP.Do(request)
	if err != nil {
		return false, err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
	return answer.StatusCode == http.StatusOK, string(body)
}
