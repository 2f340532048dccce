package durable

import (
	"context"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/workers/durable/internal/inside"
)

// Client starts, watches and controls the instances of a hub. It needs no engine, and is safe for concurrent use.
type Client struct{ hub *hub.Client }

// The HTTP API, which is a package of its own, is made of the hub's client.
func init() {
	inside.Client = func(public any) *hub.Client { return public.(*Client).hub }
}

// NewClient opens a hub that exists; it returns ErrHubNotFound otherwise.
func NewClient(ctx context.Context, options Options) (*Client, error) {
	c, err := hub.NewClient(ctx, hub.Options(options))
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// StartOptions are the options of [Client.Start] and of the function [Start].
type StartOptions struct {
	// InstanceID is the instance's ID. Default: a random one.
	InstanceID string
	// Input is JSON; empty for none.
	Input string
	// At is the time at which the instance starts. Default: now.
	At time.Time
	// Version is the workflow's version: workers can read it, and take work by it.
	Version string
	// Tags are kept with the instance, at most 8 KiB.
	Tags map[string]string
	// Replace allows replacing an instance that has ended; with Running, also one that is running.
	Replace, Running bool

	same bool // leave an instance of this workflow as it is, in any status
}

// Start starts an instance of a workflow and returns its ID. It returns ErrInstanceExists if the ID is in use. The
// function [Start] takes the input as a value, and can be repeated.
func (c *Client) Start(ctx context.Context, workflow string, o StartOptions) (string, error) {
	if c == nil {
		return "", ErrNoClient
	}
	return c.hub.Start(ctx, workflow, hub.StartOptions{InstanceID: o.InstanceID, Input: o.Input, At: o.At,
		Version: o.Version, Tags: o.Tags, Replace: o.Replace, Running: o.Running, Same: o.same})
}

// Instance is the state of an instance.
type Instance struct {
	ID, Name  string
	Version   string            `json:",omitempty"`
	Execution string            `json:",omitempty"`
	Tags      map[string]string `json:",omitempty"`
	// Status is Pending, Running, Suspended, ContinuedAsNew, Completed, Failed, Terminated or Canceled; Unknown for one
	// whose row cannot be read.
	Status         string
	Created        time.Time
	LastUpdated    time.Time
	Scheduled      *time.Time `json:",omitempty"` // when it was to start, if that was given
	Completed      *time.Time `json:",omitempty"`
	Parent         string     `json:",omitempty"`
	Input          string     `json:",omitempty"`
	Output         string     `json:",omitempty"`
	CustomStatus   string     `json:",omitempty"`
	FailureType    string     `json:",omitempty"`
	FailureMessage string     `json:",omitempty"`

	failure *Failure
}

// Failure returns why the instance has failed, or nil.
func (i *Instance) Failure() *Failure { return i.failure }

// Done reports whether the instance has ended.
func (i *Instance) Done() bool {
	s, err := record.ParseStatus(i.Status)
	return err == nil && record.IsFinal(s)
}

// instanceOf returns a hub's instance as this package has it; nil for nil.
func instanceOf(i *record.Instance, err error) (*Instance, error) {
	if i == nil {
		return nil, err
	}
	public := &Instance{ID: i.ID, Name: i.Name, Version: i.Version, Execution: i.Execution, Tags: i.Tags,
		Status: i.Status, Created: i.Created, LastUpdated: i.LastUpdated, Scheduled: i.Scheduled, Completed: i.Completed,
		Parent: i.Parent, Input: i.Input, Output: i.Output, CustomStatus: i.CustomStatus, FailureType: i.FailureType,
		FailureMessage: i.FailureMessage}
	if i.Cause != nil {
		public.failure = failureFrom(i.Cause)
	}
	return public, err
}

// Get returns an instance with its payloads, or ErrInstanceNotFound.
func (c *Client) Get(ctx context.Context, id string) (*Instance, error) {
	return instanceOf(c.hub.Get(ctx, id))
}

// Wait waits until the instance has ended and returns it. It returns an error when ctx is done.
func (c *Client) Wait(ctx context.Context, id string) (*Instance, error) {
	return instanceOf(c.hub.Wait(ctx, id))
}

// WaitAny is [Client.Wait] that also waits for an instance that does not exist yet.
func (c *Client) WaitAny(ctx context.Context, id string) (*Instance, error) {
	return instanceOf(c.hub.WaitAny(ctx, id))
}

// WaitStart waits until the instance has begun and returns it. It returns an error when ctx is done.
func (c *Client) WaitStart(ctx context.Context, id string) (*Instance, error) {
	return instanceOf(c.hub.WaitStart(ctx, id))
}

// Query selects instances.
type Query struct {
	// Status selects by status, as [Instance] has it; empty: all.
	Status []string
	// From and To bound the time of creation; zero: unbounded.
	From, To time.Time
	// CompletedFrom and CompletedTo bound the time at which the instance ended, the second one exclusively; zero:
	// unbounded.
	CompletedFrom, CompletedTo time.Time
	// Prefix is the beginning of the IDs.
	Prefix string
	// After is an ID: those up to it, in the order of the results, are left out.
	After string
	// Workflow is the name of the workflow; empty: any.
	Workflow string
	// Top bounds the instances of one page, 1 to 1,000. Default 100.
	Top int
	// Payloads includes inputs, outputs and custom statuses.
	Payloads bool
	// Continuation is the position at which the page begins: what Query has returned with the page before.
	Continuation string
}

// Query returns a page of instances, in the order of their IDs. A page can be empty though others follow: next is the
// position at which the next page begins, for Query.Continuation, and empty after the last page.
func (c *Client) Query(ctx context.Context, q Query) (page []*Instance, next string, err error) {
	got, err := c.hub.Query(ctx, hub.Query(q))
	if err != nil {
		return nil, "", err
	}
	for _, i := range got.Instances {
		public, _ := instanceOf(i, nil)
		page = append(page, public)
	}
	return page, got.Continuation, nil
}

// Step is an event of an instance's history.
type Step struct {
	Time time.Time `json:"time"`
	// Task is the number of the task that the event belongs to; -1 for none.
	Task int32 `json:"task"`
	// Event is the kind: "TaskScheduled".
	Event string `json:"event"`
	// Name is the name of the activity, workflow or event.
	Name string `json:"name,omitempty"`
	// Removed says that a rewind has taken the event out of the history: the workflow does not see it.
	Removed bool `json:"removed,omitempty"`
	// Details are the payload, the time of a timer, or the reason of a failure.
	Details string `json:"details,omitempty"`
}

// History returns what has happened in an instance's present execution, without the events that only mark the
// beginning of a replay.
func (c *Client) History(ctx context.Context, id string) ([]Step, error) {
	events, err := c.hub.History(ctx, id)
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, s := range record.Describe(events) {
		steps = append(steps, Step(s))
	}
	return steps, nil
}

// RaiseEvent sends an event with JSON to an instance. The instance keeps an event until the workflow waits for it. An
// event for an instance that has ended is dropped.
func (c *Client) RaiseEvent(ctx context.Context, id, name, data string) error {
	return c.hub.RaiseEvent(ctx, id, name, data)
}

// Terminate ends an instance, and with recurse its sub-orchestrations. Activities that run are not stopped.
func (c *Client) Terminate(ctx context.Context, id, reason string, recurse bool) error {
	return c.hub.Terminate(ctx, id, reason, recurse)
}

// Suspend suspends an instance until Resume.
func (c *Client) Suspend(ctx context.Context, id, reason string) error {
	return c.hub.Suspend(ctx, id, reason)
}

// Resume ends a Suspend.
func (c *Client) Resume(ctx context.Context, id, reason string) error {
	return c.hub.Resume(ctx, id, reason)
}

// Rewind retries the failed steps of a failed instance, those of failed sub-orchestrations included. A workflow that
// failed in its own code runs again from its history, which succeeds if the code has been corrected. It returns
// ErrNotFailed if the instance has not failed.
func (c *Client) Rewind(ctx context.Context, id, reason string) error {
	return c.hub.Rewind(ctx, id, reason)
}

// Restart starts the workflow of an instance that has ended again, with the same input, version and tags, under the
// same ID or a new one. It returns ErrNotCompleted if the instance is running.
func (c *Client) Restart(ctx context.Context, id string, newInstanceID bool) (string, error) {
	return c.hub.Restart(ctx, id, newInstanceID)
}

// Purge deletes all data of an instance that has ended. It returns ErrNotCompleted if the instance is running.
func (c *Client) Purge(ctx context.Context, id string) error { return c.hub.Purge(ctx, id) }

// PurgeTree purges an instance, and with recurse its sub-orchestrations before it. It returns the number of purged
// instances.
func (c *Client) PurgeTree(ctx context.Context, id string, recurse bool) (int, error) {
	return c.hub.PurgeTree(ctx, id, recurse)
}

// PurgeAll purges the instances of a query that have ended, and returns their number.
func (c *Client) PurgeAll(ctx context.Context, q Query) (int, error) {
	return c.hub.PurgeAll(ctx, hub.Query(q))
}
