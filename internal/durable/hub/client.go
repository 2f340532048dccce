package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// Client starts, watches and controls the instances of a hub. It needs no engine, and is safe for concurrent use.
type Client struct{ b *Backend }

// NewClient opens a hub that exists; it returns ErrHubNotFound otherwise.
func NewClient(ctx context.Context, options Options) (*Client, error) {
	b, err := New(options)
	if err != nil {
		return nil, err
	}
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	b.opened.Store(true)
	return &Client{b}, nil
}

// Client returns a client of the backend's hub, which must have been opened by CreateTaskHub or Start.
func (b *Backend) Client() *Client { return &Client{b} }

// StartOptions are the options of [Client.Start].
type StartOptions struct {
	// InstanceID is the instance's ID. Default: a random one.
	InstanceID string
	// Input is JSON; empty for none.
	Input string
	// RawInput is used in place of Input unless it is nil. It need not be JSON.
	RawInput *string
	// At is the time at which the instance starts. Default: now.
	At time.Time
	// Version is the workflow's version: workers can read it, and take work by it.
	Version string
	// Tags are kept with the instance, at most 8 KiB.
	Tags map[string]string
	// Replaceable are the statuses in which an instance with the ID is replaced. One that is running ends without a
	// result.
	Replaceable []record.Status
	// Ignore are the statuses in which Start leaves an instance with the ID as it is, and returns its ID.
	Ignore []record.Status
	// Replace allows replacing an instance that has ended; with Running, also one that is running.
	Replace, Running bool

	Same bool // leave an instance of this workflow as it is, in any status
}

// Start starts an instance of a workflow and returns its ID. It returns ErrInstanceExists if the ID is in use. The
// function [Start] takes the input as a value, and can be repeated.
func (c *Client) Start(ctx context.Context, workflow string, o StartOptions) (string, error) {
	if c == nil {
		return "", record.ErrNoClient
	}
	if o.InstanceID == "" {
		o.InstanceID = record.NewID()
	}
	e := event.New("executionStarted", -1, c.b.clock.Now())
	x := e.GetExecutionStarted()
	x.Name = workflow
	if o.Input != "" {
		x.Input = wrapperspb.String(o.Input)
	}
	if o.RawInput != nil {
		x.Input = wrapperspb.String(*o.RawInput)
	}
	if o.Version != "" {
		x.Version = wrapperspb.String(o.Version)
	}
	if !o.At.IsZero() {
		if err := event.CheckTime(timestamppb.New(o.At)); err != nil {
			return "", fmt.Errorf("%w: StartOptions.At: %w", record.ErrBadRequest, err)
		}
		x.ScheduledStartTimestamp = timestamppb.New(o.At)
	}
	event.Ensure(x, "orchestrationInstance")
	x.OrchestrationInstance.InstanceId = o.InstanceID
	// Everything is checked before the first write: a message without its row would start an instance that no client can
	// find.
	if err := checkTags(o.Tags); err != nil {
		return "", err
	}
	event.SetTags(x.ProtoReflect(), event.StartedTags, o.Tags)
	event.TraceStart(ctx, x)
	// The function decides on the row that is there, and may be called again after a conflict.
	err := c.b.create(ctx, e, func(row *record.InstanceRow) (reuse, error) {
		s := row.Status()
		switch {
		// A repeated Start of the same workflow is the same start, for handlers whose message comes twice.
		case slices.Contains(o.Ignore, s), o.Same && row.Name == workflow:
			return ignore, nil
		case o.Replace && (o.Running || record.IsFinal(s)), slices.Contains(o.Replaceable, s):
			return replace, nil
		}
		return refuse, nil
	})
	if err == nil {
		// Later calls of this process know that the instance exists, without asking the table.
		c.b.started.Add(o.InstanceID)
	}
	return o.InstanceID, err
}

func (c *Client) instance(ctx context.Context, r *record.InstanceRow, payloads bool) (*record.Instance, error) {
	m, err := c.b.instances.Metadata(ctx, r, payloads)
	if err != nil {
		return nil, err
	}
	return record.NewInstance(r, m), nil
}

// Get returns an instance with its payloads.
func (c *Client) Get(ctx context.Context, id string) (*record.Instance, error) {
	if err := record.CheckInstanceID(id); err != nil {
		return nil, err
	}
	row, m, err := c.b.instances.Described(ctx, id)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, record.ErrInstanceNotFound
	}
	return record.NewInstance(row, m), nil
}

// Bounds of the polling interval of Wait, on a service that lets no request wait.
const (
	waitFirst = 10 * time.Millisecond
	waitLast  = 2 * time.Second
)

// The conditions of Wait and WaitStart, as filters of the rows.
const (
	hasEnded = "(RuntimeStatus eq 'Completed' or RuntimeStatus eq 'Failed' or RuntimeStatus eq 'Terminated' or " +
		"RuntimeStatus eq 'Canceled')"
	hasBegun = "RuntimeStatus ne 'Pending'"
)

// Wait waits until the instance has ended and returns it. It returns an error when ctx is done.
func (c *Client) Wait(ctx context.Context, id string) (*record.Instance, error) {
	return c.wait(ctx, id, false, hasEnded, (*record.Instance).Done)
}

// WaitAny is [Client.Wait] that also waits for an instance that does not exist yet.
func (c *Client) WaitAny(ctx context.Context, id string) (*record.Instance, error) {
	return c.wait(ctx, id, true, hasEnded, (*record.Instance).Done)
}

// WaitStart waits until the instance has begun and returns it. It returns an error when ctx is done.
func (c *Client) WaitStart(ctx context.Context, id string) (*record.Instance, error) {
	return c.wait(ctx, id, false, hasBegun, (*record.Instance).Begun)
}

// WaitAnyStart is [Client.WaitStart] that also waits for an instance that does not exist yet.
func (c *Client) WaitAnyStart(ctx context.Context, id string) (*record.Instance, error) {
	return c.wait(ctx, id, true, hasBegun, (*record.Instance).Begun)
}

// wait waits until a condition holds, which filter and until express. An instance that does not exist is waited for if
// absent is true.
func (c *Client) wait(ctx context.Context, id string, absent bool, filter string,
	until func(*record.Instance) bool) (*record.Instance, error) {
	exists := c.b.started.Take(id) // Without the condition: a row that matches it is found by the wait.
	for pause := waitFirst; ; pause = min(pause*3/2, waitLast) {
		// The watch begins before the look at the row, so that no change falls between the two.
		changed, forget := c.b.watches.Watch(id)
		c.b.late.HurryOne(id)
		var i *record.Instance
		var err error
		if !exists {
			if i, err = c.Get(ctx, id); absent && errors.Is(err, record.ErrInstanceNotFound) {
				err = nil
			}
			if err != nil || i != nil && until(i) {
				forget()
				return i, err
			}
		}
		exists = false
		asked := time.Now()
		row, waited := c.await(ctx, id, filter, changed)
		if row != nil {
			i, err := c.instance(ctx, row, true)
			if errors.Is(err, record.ErrNoPayload) {
				i, err = c.Get(ctx, id)
			}
			if err != nil || until(i) {
				forget()
				return i, err
			}
		}
		if !waited || time.Since(asked) < waitFirst { // a service that stops ends waits at once
			timer := time.NewTimer(pause)
			select {
			case <-changed:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
		forget()
		if ctx.Err() != nil {
			return i, ctx.Err()
		}
	}
}

// await waits at the service until the row matches, changed is closed or the wait is over. waited is false if the
// service lets no request wait.
func (c *Client) await(ctx context.Context, id, filter string, changed <-chan struct{}) (row *record.InstanceRow,
	waited bool) {
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-changed:
			cancel()
		case <-call.Done():
		}
	}()
	row, waited, err := c.b.instances.Await(call, id, filter)
	return row, waited || err != nil && call.Err() != nil
}

// Query selects instances.
type Query struct {
	// Status selects by status; empty: all.
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
	// Continuation is the position at which the page begins: Page.Continuation of the page before.
	Continuation string
}

// Page is a part of a query's result.
type Page struct {
	Instances []*record.Instance
	// Continuation is the position at which the next page begins; empty after the last page.
	Continuation string
}

// filter returns the query as a filter of the table. key returns the partition key of an instance.
func (q Query) filter(key func(instance string) string) (string, error) {
	var all []string
	var any []string
	for _, s := range q.Status {
		status, err := record.ParseStatus(s)
		if err != nil {
			return "", err
		}
		any = append(any, "RuntimeStatus eq "+record.Quote(record.StatusName(status)))
	}
	if len(any) > 0 {
		all = append(all, "("+strings.Join(any, " or ")+")")
	}
	if !q.From.IsZero() {
		all = append(all, "CreatedTime ge datetime'"+q.From.UTC().Format(record.EdmTime)+"'")
	}
	if !q.To.IsZero() {
		all = append(all, "CreatedTime le datetime'"+q.To.UTC().Format(record.EdmTime)+"'")
	}
	if !q.CompletedFrom.IsZero() {
		all = append(all, "CompletedTime ge datetime'"+q.CompletedFrom.UTC().Format(record.EdmTime)+"'")
	}
	if !q.CompletedTo.IsZero() {
		all = append(all, "CompletedTime lt datetime'"+q.CompletedTo.UTC().Format(record.EdmTime)+"'")
	}
	// A prefix of an ID is a prefix of its partition key, so that a prefix is a range and reads no other rows.
	if q.Prefix != "" {
		if err := record.CheckInstanceID(q.Prefix); err != nil {
			return "", err
		}
		first := key(q.Prefix)
		all = append(all, "PartitionKey ge "+record.Quote(first)+" and PartitionKey lt "+record.Quote(first+"\uffff"))
	}
	if q.After != "" {
		all = append(all, "PartitionKey gt "+record.Quote(key(q.After)))
	}
	if q.Workflow != "" {
		all = append(all, "Name eq "+record.Quote(q.Workflow))
	}
	return strings.Join(all, " and "), nil
}

// Query returns a page of instances, in the order of their IDs. A page can be empty though others follow.
func (c *Client) Query(ctx context.Context, q Query) (*Page, error) {
	filter, err := q.filter(c.b.instances.Key)
	if err != nil {
		return nil, err
	}
	set(&q.Top, 100)
	if q.Top < 1 || q.Top > 1000 {
		return nil, fmt.Errorf("durable: Query.Top %d is not within 1 to 1000", q.Top)
	}
	after, err := record.PositionOf(q.Continuation)
	if err != nil {
		return nil, err
	}
	texts, next, err := record.ListPage(ctx, c.b.instances.Table, filter, q.Top, after)
	if err != nil {
		return nil, fmt.Errorf("durable: query instances: %w", err)
	}
	page := &Page{Continuation: next.Text()}
	for _, text := range texts {
		i, err := c.listed(ctx, text, q.Payloads)
		if err != nil {
			return nil, err
		}
		page.Instances = append(page.Instances, i)
	}
	return page, nil
}

// unknown is the status of an instance whose row cannot be read, as in Durable Functions.
const unknown = "Unknown"

// listed returns an instance of a query. One that cannot be read does not fail the query: it has the reason as its
// failure.
func (c *Client) listed(ctx context.Context, text []byte, payloads bool) (*record.Instance, error) {
	r := &record.InstanceRow{}
	if err := json.Unmarshal(text, r); err != nil {
		var keys struct{ PartitionKey string }
		_ = json.Unmarshal(text, &keys)
		return &record.Instance{ID: record.InstanceOf(keys.PartitionKey), Status: unknown, FailureType: "Unreadable",
			FailureMessage: err.Error()}, nil
	}
	i, err := c.instance(ctx, r, payloads)
	if errors.Is(err, record.ErrNoPayload) {
		if now, m, err := c.b.instances.Described(ctx, record.InstanceOf(r.PartitionKey)); err == nil && now != nil {
			return record.NewInstance(now, m), nil
		}
	}
	var corrupt *record.CorruptError
	if errors.As(err, &corrupt) || errors.Is(err, record.ErrNoPayload) {
		return &record.Instance{ID: record.InstanceOf(r.PartitionKey), Name: r.Name, Status: record.StatusName(r.Status()),
			Created:     r.CreatedTime,
			LastUpdated: r.LastUpdatedTime,
			Parent:      r.ParentInstanceID, FailureType: "Unreadable", FailureMessage: err.Error()}, nil
	}
	return i, err
}

// History returns the events of an instance's present execution.
func (c *Client) History(ctx context.Context, id string) ([]*record.Event, error) {
	h, err := c.b.histories.Read(ctx, id)
	if err != nil {
		return nil, err
	}
	if !h.Started() {
		if _, err := c.Get(ctx, id); err != nil {
			return nil, err
		}
	}
	return h.Events, nil
}

// exists returns ErrInstanceNotFound for an ID without an instance.
func (c *Client) exists(ctx context.Context, id string) error {
	if err := record.CheckInstanceID(id); err != nil {
		return err
	}
	row, err := c.b.instances.Get(ctx, id)
	if err == nil && row == nil {
		return record.ErrInstanceNotFound
	}
	return err
}

func (c *Client) send(ctx context.Context, id string, e *record.Event) error {
	if err := c.exists(ctx, id); err != nil {
		return err
	}
	return c.b.addEvent(ctx, id, e, record.NewID())
}

// RaiseEvent sends an event with JSON to an instance. The instance keeps an event until the workflow waits for it. An
// event for an instance that has ended is dropped.
func (c *Client) RaiseEvent(ctx context.Context, id, name, data string) error {
	if name == "" {
		return fmt.Errorf("%w: the event has no name", record.ErrBadRequest)
	}
	e := event.New("eventRaised", -1, c.b.clock.Now())
	e.GetEventRaised().Name = name
	if data != "" {
		e.GetEventRaised().Input = wrapperspb.String(data)
	}
	return c.send(ctx, id, e)
}

// Terminate ends an instance, and with recurse its sub-orchestrations. Activities that run are not stopped.
func (c *Client) Terminate(ctx context.Context, id, reason string, recurse bool) error {
	if reason == "" {
		return c.TerminateWith(ctx, id, nil, recurse)
	}
	text, err := json.Marshal(reason)
	if err != nil {
		return err
	}
	output := string(text)
	return c.TerminateWith(ctx, id, &output, recurse)
}

// TerminateWith is Terminate with an output, which is kept as it is.
func (c *Client) TerminateWith(ctx context.Context, id string, output *string, recurse bool) error {
	e := event.New("executionTerminated", -1, c.b.clock.Now())
	e.GetExecutionTerminated().Recurse, e.GetExecutionTerminated().Input = recurse, protocol.Text(output)
	return c.send(ctx, id, e)
}

// TerminateNow ends an instance without its worker, by writing its end into the history. It is false if the instance
// does not exist, has ended, is written by a worker at the same time, or has locked entities. Sub-orchestrations and
// activities are not stopped.
func (c *Client) TerminateNow(ctx context.Context, id, reason string) (bool, error) {
	if err := record.CheckInstanceID(id); err != nil {
		return false, err
	}
	return c.b.terminateNow(ctx, id, reason)
}

// Suspend suspends an instance until Resume.
func (c *Client) Suspend(ctx context.Context, id, reason string) error {
	e := event.New("executionSuspended", -1, c.b.clock.Now())
	if reason != "" {
		e.GetExecutionSuspended().Input = wrapperspb.String(reason)
	}
	return c.send(ctx, id, e)
}

// Resume ends a Suspend.
func (c *Client) Resume(ctx context.Context, id, reason string) error {
	e := event.New("executionResumed", -1, c.b.clock.Now())
	if reason != "" {
		e.GetExecutionResumed().Input = wrapperspb.String(reason)
	}
	return c.send(ctx, id, e)
}

// Rewind retries the failed steps of a failed instance; see [Backend.Rewind].
func (c *Client) Rewind(ctx context.Context, id, reason string) error {
	if err := record.CheckInstanceID(id); err != nil {
		return err
	}
	return c.b.Rewind(ctx, api.InstanceID(id), reason)
}

// Restart starts the workflow of an instance that has ended again, with the same input, version and tags, under the
// same ID or a new one. It returns ErrNotCompleted if the instance is running.
func (c *Client) Restart(ctx context.Context, id string, newInstanceID bool) (string, error) {
	i, err := c.Get(ctx, id)
	if err != nil {
		return "", err
	}
	if !i.Done() {
		return "", record.ErrNotCompleted
	}
	o := StartOptions{Input: i.Input, Version: i.Version, Tags: i.Tags}
	if !newInstanceID {
		o.InstanceID, o.Replace = id, true
	}
	return c.Start(ctx, i.Name, o)
}

// Purge deletes all data of an instance that has ended. It returns ErrNotCompleted if the instance is running.
func (c *Client) Purge(ctx context.Context, id string) error {
	return c.b.PurgeOrchestrationState(ctx, api.InstanceID(id))
}

// PurgeTree purges an instance, and with recurse its sub-orchestrations before it. It returns the number of purged
// instances.
func (c *Client) PurgeTree(ctx context.Context, id string, recurse bool) (int, error) {
	return c.purgeTree(ctx, id, recurse, map[string]bool{})
}

func (c *Client) purgeTree(ctx context.Context, id string, recurse bool, done map[string]bool) (int, error) {
	if err := record.CheckInstanceID(id); err != nil {
		return 0, err
	}
	n := 0
	done[id] = true
	if recurse {
		row, err := c.b.instances.Get(ctx, id)
		if err != nil {
			return 0, err
		}
		if row != nil && !record.IsFinal(row.Status()) {
			return 0, record.ErrNotCompleted
		}
		h, err := c.b.histories.Read(ctx, id)
		var corrupt *record.CorruptError
		if err != nil && !errors.As(err, &corrupt) {
			return 0, err
		}
		terminated := slices.ContainsFunc(h.Events,
			func(e *record.Event) bool { return e.GetExecutionTerminated().GetRecurse() })
		for _, e := range h.Events {
			x := e.GetSubOrchestrationInstanceCreated()
			if x == nil || done[x.InstanceId] {
				continue
			}
			// They end by a message of their parent, which may be on its way.
			if terminated {
				c.waitEnd(ctx, x.InstanceId)
			}
			below, err := c.purgeTree(ctx, x.InstanceId, true, done)
			n += below
			if err != nil && !errors.Is(err, record.ErrInstanceNotFound) {
				return n, err
			}
		}
	}
	// The instance goes last: its history is what names those below it.
	if err := c.Purge(ctx, id); err != nil {
		return n, err
	}
	return n + 1, nil
}

// endsWithin is the time that a purge waits for the end of sub-orchestrations that end with their parent.
const endsWithin = 5 * time.Second

// waitEnd waits for the end of an instance that was told to end.
func (c *Client) waitEnd(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	_, _ = c.Wait(ctx, id) // The purge finds out what the state is.
}

// PurgeAll purges the instances of a query that have ended, and returns their number.
func (c *Client) PurgeAll(ctx context.Context, q Query) (int, error) {
	n := 0
	for {
		page, err := c.Query(ctx, q)
		if err != nil {
			return n, err
		}
		for _, i := range page.Instances {
			if !i.Done() {
				continue
			}
			switch err := c.Purge(ctx, i.ID); {
			case err == nil:
				n++
			case !errors.Is(err, record.ErrInstanceNotFound) && !errors.Is(err, record.ErrNotCompleted):
				return n, err
			}
		}
		if q.Continuation = page.Continuation; q.Continuation == "" {
			return n, nil
		}
	}
}
