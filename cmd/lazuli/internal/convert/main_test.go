package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// childVar is the environment variable that makes the test binary a node, which dies where fault.EnvVar says.
const childVar = "LAZULI_TEST_CONVERT_NODE"

// child is a node in a process of its own.
type child struct {
	Folder string
	Node   peering.Peer
	Peers  []peering.Peer
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childVar); text != "" {
		fmt.Fprintln(os.Stderr, runChild(text))
		os.Exit(1) // it should have been killed
	}
	check.FilesInMemory()
	check.MoreParallel(4) // most tests wait, for elections and nodes that start
	os.Exit(m.Run())
}

func runChild(text string) error {
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	plan, err := fault.ParsePlan(os.Getenv(fault.EnvVar))
	if err != nil {
		return err
	}
	fault.Activate(plan)
	_, err = server.StartContext(context.Background(), server.Config{Location: c.Folder, Log: quiet,
		Cluster: &peering.Config{Node: c.Node.Name, Listen: c.Node.Address, Peers: c.Peers}})
	if err != nil {
		return err
	}
	return fmt.Errorf("the node serves")
}

// dieAt runs the node until it is killed at a point.
func (c child) dieAt(t *testing.T, point string) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+string(text), fault.EnvVar+"="+point+"=kill")
	out, err := cmd.CombinedOutput()
	if state := cmd.ProcessState; err == nil || state == nil || state.ExitCode() != -1 {
		t.Fatalf("the node was not killed at %s: %v\n%s", point, err, out)
	}
}
