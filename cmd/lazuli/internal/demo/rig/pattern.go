package rig

import (
	"context"

	"github.com/lazuli-storage/lazuli/internal/killrig"
)

// Pattern is a role with its data, as the harness sees it. Items are known by keys.
type Pattern interface {
	// Points are the moments at which a worker is killed; HoldUp is the one, in the middle of its work, at which it is
	// frozen.
	Points() []string
	HoldUp() string
	// Concurrency is the number of messages that a worker has in work: enough to be caught in the middle of several.
	Concurrency() int
	Create(ctx context.Context) error
	Remove(ctx context.Context) error
	// Load stores the records, as many as records says (0: all), and returns the items to be worked on.
	Load(ctx context.Context, r *Run) ([]Key, error)
	// Kind sorts items by what is done to them: every round, and every death, gets some of each kind.
	Kind(k Key) string
	// Message is the body of the message that asks for an item.
	Message(k Key) ([]byte, error)
	// Passes is the number of times that a worker surely comes to a point on n items, at least 1.
	Passes(point string, n int) int
	// Plan is the fault plan that kills a worker.
	Plan(k Kill) string
	// Reset makes items on which all work is done as they were when loaded.
	Reset(ctx context.Context, keys []Key) error
	// Census returns where the items are. atEnd means that all work is done, so that items that were not processed are
	// lost.
	Census(ctx context.Context, keys []Key, atEnd bool) (Census, error)
	// Converged reports whether all work is done, except that of messages.
	Converged(ctx context.Context) (bool, error)
	// Conclude counts everything once more, and returns what is wrong; summary is one sentence for the report.
	Conclude(ctx context.Context, r *Run) (problems []string, summary string, err error)
	// Words are those of the report.
	Words() Words
	// names are those of what create makes.
	Settings() WorkerSettings
}

// PointsOf returns what a run visits by default.
func PointsOf(p Pattern) []string {
	if _, one := p.(interface{ OneProcess() }); one || !killrig.HasSignals {
		return p.Points()
	}
	return append(p.Points(), Frozen)
}
