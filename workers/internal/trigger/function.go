package trigger

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/sdk/jobrow"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/locks"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/status"
)

// Function is what the runtime knows of a registered function.
type Function struct {
	Name, Trigger string
	Settings      Settings
	Stats         Stats
	Gate          gate
	Batch         BatchHandler // of a queue trigger whose handler gets several messages a call
}

// NewFunction returns a function with the default settings.
func NewFunction(name, trigger string) *Function {
	f := &Function{Name: name, Trigger: trigger, Settings: defaultSettings(name)}
	f.Stats.init()
	return f
}

// The names of the triggers, as in Azure Functions where it has them.
const (
	QueueTrigger    = "queueTrigger"
	BlobTrigger     = "blobTrigger"
	TimerTrigger    = "timerTrigger"
	ScheduleTrigger = "scheduleTrigger"

	OrchestrationTrigger = "orchestrationTrigger"
	ActivityTrigger      = "activityTrigger"
	EntityTrigger        = "entityTrigger"
	TableTrigger         = "tableTrigger"
)

// Listener runs a trigger. listen starts calls until soft is done, waits for running calls, and returns. When hard is
// done, it cancels running calls and returns as soon as possible.
type Listener interface {
	Listen(soft, hard context.Context) error
	// wake interrupts a wait for new work.
	Wake()
}

// Queued is implemented by listeners whose work comes as messages of a queue.
type Queued interface{ MessageQueue() queues.Client }

// Beginner is implemented by listeners that must be in a certain state before Start returns.
type Beginner interface {
	// begin returns when the listener misses no event that comes after it. It may be called again.
	Begin(ctx context.Context) error
}

// Queues returns the names of the queues that a function of the queue trigger listens to.
func (f *Function) Queues() []string {
	if p := f.Settings.Priority; p != nil {
		return p.Names
	}
	return []string{f.Settings.QueueName}
}

// Invoke calls the app's middleware around the call of a handler. The context that call gets has what handlers find in
// theirs.
type Invoke func(ctx context.Context, i *Invocation, call func(ctx context.Context) error) error

// Environment is what the listener of a function has of its app and storage account. A client is nil if the account has
// no endpoint of its service.
type Environment struct {
	HostID     string
	Log        *slog.Logger // with the function's name
	Clock      calls.Clock
	Stuck      time.Duration // see Config.StuckTimeout
	LockPeriod time.Duration
	Local      bool // all endpoints are on this machine

	Queues *azqueue.ServiceClient
	Blobs  *azblob.Client
	Tables *aztables.ServiceClient

	OpenQueue func(name string) (queues.Client, error)
	OpenHost  func() (locks.Store, error)
	// wake makes the functions that listen to a queue poll it now.
	Wake   func(queue string)
	Invoke Invoke
}

// jobs returns the rows of the account's jobs.
func (e *Environment) jobs() (*jobrow.Store, error) { return OpenJobs(e.Tables) }

// OpenJobs returns the rows of an account's jobs.
func OpenJobs(tables *aztables.ServiceClient) (*jobrow.Store, error) {
	if tables == nil {
		return nil, errors.New("workers: jobs need a table endpoint, and the connection string has none")
	}
	return jobrow.Open(tables)
}

// Singleton returns the lock of a name, by which one instance of the app does something.
func (e *Environment) Singleton(store locks.Store, name string) *locks.Singleton {
	return &locks.Singleton{Store: store, Name: "locks/" + e.HostID + "/" + name, Owner: uuid.NewString(),
		Period: e.LockPeriod, Retry: e.LockPeriod / 3, Clock: e.Clock, Log: e.Log}
}

// Snapshot returns the counters at a time.
func (f *Function) Snapshot(now time.Time) status.Function {
	s := &f.Stats
	return status.Function{
		Name: f.Name, Trigger: f.Trigger, Paused: f.Gate.Paused(), Running: s.calls(),
		PerSecond: s.perSecond(now), LastHour: s.lastHour(now),
		InFlight: s.InFlight.Load(), Succeeded: s.Succeeded.Load(), Failed: s.Failed.Load(),
		Poisoned: s.Poisoned.Load(), Snoozed: s.Snoozed.Load(), Released: s.Released.Load(),
		PutBack:       s.PutBack.Load(),
		LeaseRenewals: s.LeaseRenewals.Load(), LeaseLost: s.LeaseLost.Load(), Stuck: s.Stuck.Load(),
		LastError: s.lastError.Load(),
	}
}
