package accounts

import (
	"context"
	"crypto/rand"
	"sync"
	"time"
)

// Position is a place in the changes that a node has seen.
type Position struct {
	// Journal identifies the list of changes: positions of two nodes, or before and after a restart, cannot be compared.
	// It is "" for who has seen nothing.
	Journal string `json:"journal"`
	At      uint64 `json:"at"`
}

// Change is the record of an account after a change; Value is nil if it was removed.
type Change struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// Changes are what has changed until a position.
type Changes struct {
	Position Position `json:"position"`
	// Whole is set if Records are all accounts, and what is not among them does not exist.
	Whole   bool     `json:"whole"`
	Records []Change `json:"records"`
}

// Journal has the last changes of the records on a node with shard 0, for the nodes that do not have it. It is safe for
// concurrent use.
type Journal struct {
	mu      sync.Mutex
	at      Position      // guarded by mu, as is what follows
	last    []Change      // the changes up to at
	changed chan struct{} // closed by the next change
}

// maxJournal is the number of changes that a journal has. Who is further behind gets all accounts.
const maxJournal = 10_000

// NewJournal returns a journal without changes.
func NewJournal() *Journal {
	j := &Journal{changed: make(chan struct{})}
	j.Restart()
	return j
}

// Restart ends the list of changes and begins another one: from now on the node may have missed some.
func (j *Journal) Restart() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.at, j.last = Position{Journal: rand.Text()}, nil
	j.wake()
}

func (j *Journal) wake() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// Note takes note of a change. It does not block.
func (j *Journal) Note(name string, value []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// Half is dropped at once: dropping one with each change would copy all.
	if len(j.last) == 2*maxJournal {
		j.last = append([]Change(nil), j.last[maxJournal:]...)
	}
	j.last = append(j.last, Change{name, value})
	j.at.At++
	j.wake()
}

// Position returns the end of the journal.
func (j *Journal) Position() Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.at
}

// after returns the changes after a position; ok is false if the journal does not have them all. more is closed by the
// next change.
func (j *Journal) after(p Position) (c Changes, ok bool, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// A position beyond the end wraps around; it is refused below.
	missing := j.at.At - p.At
	if p.Journal != j.at.Journal || p.At > j.at.At || missing > uint64(len(j.last)) {
		return c, false, j.changed
	}
	return Changes{Position: j.at, Records: append([]Change(nil), j.last[len(j.last)-int(missing):]...)}, true, j.changed
}

// Since returns what has changed since a position, or all accounts if the journal does not reach back so far. It waits
// at most for a time until there is a change; ended ends the wait.
func (j *Journal) Since(ctx context.Context, p Position, most time.Duration, ended <-chan struct{},
	records Records) (Changes, error) {
	limit := time.NewTimer(most)
	defer limit.Stop()
	for waits := true; ; {
		c, ok, more := j.after(p)
		switch {
		case !ok:
			return j.all(records)
		case len(c.Records) > 0 || !waits:
			return c, nil
		}
		select {
		case <-more:
		case <-limit.C:
			waits = false
		case <-ended:
			waits = false
		case <-ctx.Done():
			return Changes{}, ctx.Err()
		}
	}
}

// all returns all accounts. What has changed while they were read is added, so that none of them is older than what the
// position says.
func (j *Journal) all(records Records) (Changes, error) {
	for {
		before := j.Position()
		all, err := AllRecords(records)
		if err != nil {
			return Changes{}, err
		}
		c, ok, _ := j.after(before)
		if !ok {
			continue // it was restarted, or there were very many
		}
		for _, change := range c.Records {
			if all[change.Name] = change.Value; change.Value == nil {
				delete(all, change.Name)
			}
		}
		c.Whole, c.Records = true, make([]Change, 0, len(all))
		for name, value := range all {
			c.Records = append(c.Records, Change{name, value})
		}
		return c, nil
	}
}
