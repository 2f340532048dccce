package workflowpages

import (
	"fmt"
	"net/http"
	"time"
)

// workflowTree holds the workflows around an instance as the management API writes them, each behind its parent.
type workflowTree struct {
	Instances []treeInstance
	More      bool
}

// treeInstance is a workflow in a tree.
type treeInstance struct {
	Name, InstanceID, ParentInstanceID, RuntimeStatus string
	CreatedTime                                       time.Time
	CompletedTime                                     *time.Time
	Missing                                           bool
}

// graph draws a tree of workflows from left to right: a box for each, and a line to each child.
type graph struct {
	Width, Height int
	Nodes         []graphNode
	Lines         []string // paths
	More          bool
}

// graphNode is the box of a workflow; X and Y are its upper left corner.
type graphNode struct {
	treeInstance
	X, Y     int
	Took     time.Duration // so far, if it runs
	Here     bool          // the page is about it
	ID, What string        // as long as the box allows
}

// The sizes of a graph, in pixels.
const (
	boxWidth, boxHeight = 220, 52
	boxRight, boxBelow  = 48, 12 // the spaces between boxes
	boxText             = 26     // characters in a line of a box
)

// Class returns the style of the box.
func (n graphNode) Class() string {
	switch {
	case n.Missing:
		return "missing"
	case n.Here:
		return "here " + statusClasses[n.RuntimeStatus]
	}
	return statusClasses[n.RuntimeStatus]
}

// draw places a tree. It returns nil for a workflow that has neither a parent nor children.
func (t workflowTree) draw(here string, now time.Time) *graph {
	if len(t.Instances) < 2 {
		return nil
	}
	g := &graph{More: t.More, Nodes: make([]graphNode, len(t.Instances))}
	at := map[string]int{} // by ID
	children := make([][]int, len(t.Instances))
	for i, b := range t.Instances {
		at[b.InstanceID] = i
		if parent, ok := at[b.ParentInstanceID]; ok && i > 0 {
			children[parent] = append(children[parent], i)
		}
	}
	rows := 0
	var put func(i, depth int)
	put = func(i, depth int) {
		b, end := t.Instances[i], now
		if b.CompletedTime != nil {
			end = *b.CompletedTime
		}
		n := graphNode{treeInstance: b, X: depth * (boxWidth + boxRight), Here: b.InstanceID == here,
			ID: shortID(b.InstanceID), What: ellipsis(b.Name, boxText-9)} // beside the status
		if !b.Missing && b.RuntimeStatus != "Pending" {
			n.Took = max(0, end.Sub(b.CreatedTime))
		}
		// A box stands beside its first child; one without children has a row of its own.
		n.Y = rows * (boxHeight + boxBelow)
		for _, child := range children[i] {
			put(child, depth+1)
		}
		if len(children[i]) == 0 {
			rows++
		}
		for _, child := range children[i] {
			x, y := n.X+boxWidth, n.Y+boxHeight/2
			c := g.Nodes[child]
			middle, to := x+boxRight/2, c.Y+boxHeight/2
			g.Lines = append(g.Lines, fmt.Sprintf("M%d %dH%dV%dH%d", x, y, middle, to, c.X))
		}
		g.Nodes[i] = n
		g.Width, g.Height = max(g.Width, n.X+boxWidth), max(g.Height, n.Y+boxHeight)
	}
	put(0, 0)
	return g
}

// shortID returns an ID that is not longer than a box allows. Those of children differ at the end.
func shortID(id string) string {
	const tail = 10
	if list := []rune(id); len(list) > boxText {
		return string(list[:boxText-tail-1]) + "…" + string(list[len(list)-tail:])
	}
	return id
}

// ellipsis returns a text that is not longer than some characters.
func ellipsis(text string, most int) string {
	if list := []rune(text); len(list) > most {
		return string(list[:most-1]) + "…"
	}
	return text
}

// graphOf draws the workflows around the page's instance.
func (d *workflowPages) graphOf(r *http.Request, id string) (*graph, error) {
	var t workflowTree
	if _, err := d.read(r, r.PathValue("hub"), []string{"tree", id}, nil, "", &t); err != nil {
		return nil, err
	}
	return t.draw(id, d.Now()), nil
}
