package azurite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// Account has the clients of the account that is written.
type Account struct {
	Tables *aztables.ServiceClient
	Queues *azqueue.ServiceClient
	Blobs  *azblob.Client
}

// Options are the options of an import.
type Options struct {
	// Targets maps the accounts of the folder to the accounts that are written. Others are left out.
	Targets map[string]Account
	// SetTime sets the clock of the target to a time that is never before the one of the last call. Nil is for a target
	// whose clock cannot be set: what is written then has the time of the import.
	SetTime func(time.Time)
	// Now is the present; nil is time.Now. Messages that have expired by then are not written.
	Now func() time.Time
	// Progress is called after each hundred requests with how many are made, and how many there are; nil is silent.
	Progress func(done, all int)
}

// Result counts what was imported.
type Result struct {
	Containers, Blobs, Snapshots, Uncommitted int // Uncommitted counts blocks
	Queues, Messages, Expired                 int // Expired messages were left out
	Tables, Entities                          int
	// Missing has an item and the reason for each that could not be read or written.
	Missing []string
}

// step makes the requests for one item.
type step struct {
	at   time.Time
	item string
	do   func(context.Context) error
	// count is the number in the result that the step raises.
	count *int
}

// importer plans an import.
type importer struct {
	*Folder
	Options
	now    time.Time
	steps  []step
	result Result
}

// Import writes what the folder has. An item that cannot be read, or that the target refuses, is noted in the result,
// and the import continues. It returns an error if the target does not respond, or has one of the tables, queues or
// containers already.
func (f *Folder) Import(ctx context.Context, o Options) (Result, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	i := &importer{Folder: f, Options: o, now: o.Now()}
	i.planContainers()
	i.planQueues()
	i.planTables()
	// Of steps with equal times those of a resource stay in their order.
	slices.SortStableFunc(i.steps, func(a, b step) int { return a.at.Compare(b.at) })
	i.planLast()
	for n, s := range i.steps {
		if err := i.run(ctx, s); err != nil {
			return i.result, fmt.Errorf("%s: %w", s.item, sdkerr.Short(err))
		}
		if i.Progress != nil && (n%100 == 99 || n == len(i.steps)-1) {
			i.Progress(n+1, len(i.steps))
		}
	}
	return i.result, nil
}

// errExists means that the target has a resource of this name.
var errExists = errors.New("it exists in the account: give an account without it")

func (i *importer) run(ctx context.Context, s step) error {
	if i.SetTime != nil {
		i.SetTime(s.at)
	}
	err := s.do(ctx)
	switch {
	case err == nil:
		if s.count != nil {
			*s.count++
		}
		return nil
	case errors.Is(err, errReported):
		return nil
	case ctx.Err() != nil || errors.Is(err, errExists) || !refusal(err):
		return err
	}
	i.result.Missing = append(i.result.Missing, s.item+": "+sdkerr.Text(err))
	return nil
}

// earliest returns the earliest of the times that are known.
func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// plan adds a step. Times that are not known, and those after the present, are the present.
func (i *importer) plan(at time.Time, item string, count *int, do func(context.Context) error) {
	if at.IsZero() || at.After(i.now) {
		at = i.now
	}
	i.steps = append(i.steps, step{at: at, item: item, do: do, count: count})
}

// planLast adds, at the present, what has no time, or what must follow everything else: uncommitted blocks, which the
// service keeps for a week after the last one; leases; the properties of the services, such as logging.
func (i *importer) planLast() {
	i.planUncommitted()
	i.planLeases()
	i.planProperties()
}
