package webhook

import (
	"errors"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// The bounds of a tree: instances, steps up from the instance that is asked for, and the time to read.
const (
	treeInstances = 60
	treeParents   = 10
	treeTime      = time.Second
)

// branch is an instance of a tree, behind its parent.
type branch struct {
	Name       string     `json:"name"`
	InstanceID string     `json:"instanceId"`
	Parent     string     `json:"parentInstanceId,omitempty"`
	Status     string     `json:"runtimeStatus"`
	Created    time.Time  `json:"createdTime"`
	Completed  *time.Time `json:"completedTime,omitempty"`
	// Missing says that the parent names the instance, and that it does not exist (any more, or yet).
	Missing bool `json:"missing,omitempty"`
}

// tree holds an instance, those that started it, and those that it and they started.
type tree struct {
	Branches []branch `json:"instances"` // each behind its parent
	More     bool     `json:"more"`      // a bound was reached
}

// tree answers with the instances around one: its parents up to the first, and all that these have started. Children
// are those of the present execution: continue-as-new begins a history without the ones before. It is Lazuli's.
func (c *call) tree(id string) error {
	i, err := c.client.Get(c.r.Context(), id)
	if err != nil {
		return err
	}
	t := tree{Branches: []branch{}}
	end := time.Now().Add(treeTime)
	seen := map[string]bool{i.ID: true}
	for n := 0; i.Parent != "" && !seen[i.Parent]; n++ {
		if n == treeParents {
			t.More = true
			break
		}
		parent, err := c.client.Get(c.r.Context(), i.Parent)
		if errors.Is(err, record.ErrInstanceNotFound) { // purged: the tree begins below it
			break
		}
		if err != nil {
			return err
		}
		seen[i.Parent], i = true, parent
	}
	// Breadth first, so that a bound leaves out what is farthest from the first instance.
	seen = map[string]bool{i.ID: true}
	t.add(i, "")
	for at := 0; at < len(t.Branches); at++ {
		b := t.Branches[at]
		if b.Missing {
			continue
		}
		if time.Now().After(end) {
			t.More = true
			break
		}
		events, err := c.client.History(c.r.Context(), b.InstanceID)
		var broken *record.CorruptError
		if errors.As(err, &broken) || errors.Is(err, record.ErrInstanceNotFound) {
			continue // what it has started is not known
		}
		if err != nil {
			return err
		}
		for _, e := range events {
			child := e.GetSubOrchestrationInstanceCreated()
			if child == nil || seen[child.InstanceId] {
				continue
			}
			if len(t.Branches) == treeInstances {
				t.More = true
				break
			}
			seen[child.InstanceId] = true
			i, err := c.client.Get(c.r.Context(), child.InstanceId)
			switch {
			case errors.Is(err, record.ErrInstanceNotFound):
				t.Branches = append(t.Branches,
					branch{Name: child.Name, InstanceID: child.InstanceId, Parent: b.InstanceID, Missing: true})
			case err != nil:
				return err
			default:
				t.add(i, b.InstanceID)
			}
		}
	}
	writeJSON(c.w, http.StatusOK, t)
	return nil
}

// add adds an instance.
func (t *tree) add(i *record.Instance, parent string) {
	t.Branches = append(t.Branches, branch{Name: i.Name, InstanceID: i.ID, Parent: parent, Status: i.Status,
		Created: i.Created, Completed: i.Completed})
}
