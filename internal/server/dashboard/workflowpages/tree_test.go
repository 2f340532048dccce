package workflowpages

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A graph has a box for each workflow, and a line to each child; those of a column do not overlap.
func TestGraph(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	end := begin.Add(7500 * time.Millisecond)
	long := strings.Repeat("a", 40) + ":0000"
	tree := workflowTree{Instances: []treeInstance{
		{InstanceID: "top", Name: "order", RuntimeStatus: "Running", CreatedTime: begin},
		{InstanceID: "one", ParentInstanceID: "top", RuntimeStatus: "Completed", CreatedTime: begin, CompletedTime: &end},
		{InstanceID: "two", ParentInstanceID: "top", Missing: true},
		{InstanceID: long, ParentInstanceID: "one", RuntimeStatus: "Failed", CreatedTime: begin, CompletedTime: &end},
		{InstanceID: "four", ParentInstanceID: "one", RuntimeStatus: "Pending", CreatedTime: begin},
	}}
	g := tree.draw("one", begin.Add(time.Minute))
	var got []string
	for _, n := range g.Nodes {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %d,%d %v %s", n.ID, n.X, n.Y, n.Took, n.Class())))
	}
	want := []string{"top 0,0 1m0s", "one 268,0 7.5s here good", "two 268,128 0s missing",
		"aaaaaaaaaaaaaaa…aaaaa:0000 536,0 7.5s bad", "four 536,64 0s"}
	if !slices.Equal(got, want) || len(g.Lines) != 4 || g.Width != 756 || g.Height != 180 {
		t.Errorf("%q, want %q; %q, %d x %d", got, want, g.Lines, g.Width, g.Height)
	}
	if g := (workflowTree{Instances: tree.Instances[:1]}).draw("top", begin); g != nil {
		t.Errorf("%+v", g)
	}
}
