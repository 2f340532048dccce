package faultrule

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Rule says which requests fail and how. Exactly one of the actions Error, Reset, Truncate, Corrupt, Unanswered,
// Throttle and Secondary is set, or none where Delay or Slow is the action; Delay and Slow go with every action.
type Rule struct {
	// Name identifies the rule in the log, in the response header [Header] and in [Set.Remove]. Letters, digits, "-", "_"
	// and ".", at most 64 characters. [Set.Add] makes a name for a rule without one.
	Name string `json:"name,omitempty"`

	// Service is "blob", "queue" or "table". Empty matches all of them.
	Service string `json:"service,omitempty"`
	// Operation is the name in the REST reference, with or without spaces, in any case: "Put Blob", "putblob". "*" stands
	// for any characters. Empty matches every operation.
	Operation string `json:"operation,omitempty"`
	// Resource is compared with the path below the account, decoded and without the leading slash: "photos/2026/*",
	// "Employees(PartitionKey='eu',*". "*" stands for any characters, "?" for one. Empty matches every resource.
	Resource string `json:"resource,omitempty"`
	// Account is an account's name. Empty matches all accounts.
	Account string `json:"account,omitempty"`
	// Client is compared with the User-Agent header; "*" and "?" as in Resource. Empty matches every client.
	Client string `json:"client,omitempty"`
	// Endpoint is "primary" or "secondary". Empty matches both. [Secondary] chooses its requests itself.
	Endpoint string `json:"endpoint,omitempty"`

	// Skip is the number of matching requests before the rule takes effect.
	Skip int `json:"skip,omitempty"`
	// Nth makes every nth matching request fail, counted after Skip; 0 and 1 are every one.
	Nth int `json:"nth,omitempty"`
	// Share is the part of matching requests that fail, above 0 and at most 1; 0 is all of them. Seed makes the choice
	// repeatable; 0 chooses a seed.
	Share float64 `json:"share,omitempty"`
	Seed  uint64  `json:"seed,omitempty"`
	// Count is the maximum number of requests that fail; then the rule has no effect. 0 means no limit.
	Count int `json:"count,omitempty"`
	// For is the time for which the rule has effect after it was added. 0 means no limit.
	For Duration `json:"for,omitempty"`

	// Delay is waited before the operation, at most [MaxDelay].
	Delay Duration `json:"delay,omitempty"`
	// Slow is the speed of the bodies of request and response in bytes per second. 0 is full speed.
	Slow int `json:"slow,omitempty"`

	// Error is the code of the error that is answered in place of the operation: one of [Errors].
	Error string `json:"error,omitempty"`
	// RetryAfter goes with Error and Throttle: the Retry-After header, in whole seconds. 0 leaves the header out.
	RetryAfter Duration `json:"retryAfter,omitempty"`
	// Reset breaks the connection: "before" the operation, "during" the response (after its first bytes), or "after" it.
	Reset string `json:"reset,omitempty"`
	// Truncate ends the connection after so many bytes of the response's body, though its length promises more.
	Truncate *int64 `json:"truncate,omitempty"`
	// Corrupt changes one bit of the byte at this offset of a body: of the request for operations that have one and
	// CorruptRequest set, else of the response.
	Corrupt        *int64 `json:"corrupt,omitempty"`
	CorruptRequest bool   `json:"corruptRequest,omitempty"`
	// Unanswered runs the operation and breaks the connection in place of the response: the write has happened, and the
	// client does not know.
	Unanswered bool `json:"unanswered,omitempty"`
	// Throttle answers 503 ServerBusy beyond a rate.
	Throttle *Throttle `json:"throttle,omitempty"`
	// Secondary makes the secondary endpoint lag, or the account fail over.
	Secondary *Secondary `json:"secondary,omitempty"`
}

// The rates that Azure documents for tables, in entities per second.
// https://learn.microsoft.com/azure/storage/tables/scalability-targets
const (
	AzurePartitionEntities = 2_000
	AzureAccountEntities   = 20_000
)

// Throttle is a limit on a rate: Requests, Bytes, or at least one of PartitionEntities and AccountEntities is set.
type Throttle struct {
	// Requests is the number of requests per second.
	Requests float64 `json:"requests,omitempty"`
	// Bytes is the number of bytes per second of the bodies of requests and responses.
	Bytes float64 `json:"bytes,omitempty"`
	// PartitionEntities and AccountEntities are the numbers of entities per second, of each partition of a table and of
	// all tables of an account. A write or a read of one entity counts one, a transaction its changes, a query the
	// entities that it returns. 0 is no limit.
	PartitionEntities float64 `json:"partitionEntities,omitempty"`
	AccountEntities   float64 `json:"accountEntities,omitempty"`
	// Per holds what has a rate of its own: "account" (the default), "container" (of its service: a container, queue or
	// table), or "partition": a blob, a queue, or the entities of a table with one PartitionKey.
	Per string `json:"per,omitempty"`
}

// Duration is a time.Duration that is written "1.5s" in JSON.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// The limits of a rule.
const (
	MaxDelay   = 10 * time.Minute
	maxPattern = 1024
	maxName    = 64
)

// Errors are the errors that a rule can answer with, by their code.
var Errors = map[string]*wire.Error{
	"ServerBusy":        wire.ErrServerBusy,
	"OperationTimedOut": wire.ErrOperationTimedOut,
	"InternalError":     wire.ErrInternal,
}

// ErrRule wraps everything that is wrong with a rule; its text names the member.
var ErrRule = errors.New("the fault rule is not valid")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRule, fmt.Sprintf(format, args...))
}

// Decode reads a rule from JSON and refuses members that it does not know.
func Decode(text []byte) (r Rule, err error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Rule{}, invalid("%v", err)
	}
	if d.More() {
		return Rule{}, invalid("more than one value")
	}
	return r, nil
}

// services are the valid values of Rule.Service.
var services = map[string]wire.Service{"blob": wire.Blob, "queue": wire.Queue, "table": wire.Table}

// Check reports what is wrong with a rule as far as that does not depend on the server: an error that wraps [ErrRule],
// or nil.
func (r Rule) Check() error { return r.validate() }

// validate reports the first member of r that is not valid.
func (r *Rule) validate() error {
	if _, ok := services[r.Service]; r.Service != "" && !ok {
		return invalid("service is %q, want blob, queue or table", r.Service)
	}
	for _, p := range []struct{ name, pattern string }{{"operation", r.Operation}, {"resource", r.Resource},
		{"account", r.Account}, {"client", r.Client}} {
		if len(p.pattern) > maxPattern {
			return invalid("%s is longer than %d bytes", p.name, maxPattern)
		}
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"skip", int64(r.Skip)}, {"nth", int64(r.Nth)}, {"count", int64(r.Count)}, {"slow", int64(r.Slow)},
		{"for", int64(r.For)}, {"delay", int64(r.Delay)}, {"retryAfter", int64(r.RetryAfter)}} {
		if n.value < 0 {
			return invalid("%s is negative", n.name)
		}
	}
	switch {
	case !(r.Share >= 0 && r.Share <= 1): // refuses NaN, too
		return invalid("share is %v, want a number above 0 and at most 1", r.Share)
	case !slices.Contains([]string{"", primaryEndpoint, secondaryEndpoint}, r.Endpoint):
		return invalid("endpoint is %q, want primary or secondary", r.Endpoint)
	case time.Duration(r.Delay) > MaxDelay:
		return invalid("delay is longer than %v", MaxDelay)
	case time.Duration(r.RetryAfter)%time.Second != 0:
		return invalid("retryAfter is not in whole seconds")
	case !validName(r.Name):
		return invalid("name %q: want letters, digits, -, _ and ., at most %d characters", r.Name, maxName)
	}
	return r.validateAction()
}

func (r *Rule) validateAction() error {
	var actions []string
	for _, a := range []struct {
		name string
		set  bool
	}{{"error", r.Error != ""}, {"reset", r.Reset != ""}, {"truncate", r.Truncate != nil}, {"corrupt", r.Corrupt != nil},
		{"unanswered", r.Unanswered}, {"throttle", r.Throttle != nil}, {"secondary", r.Secondary != nil}} {
		if a.set {
			actions = append(actions, a.name)
		}
	}
	switch {
	// An order among two actions would have to be explained; two rules do the same.
	case len(actions) > 1:
		return invalid("%s exclude each other", strings.Join(actions, " and "))
	// Delays go with each action, and are enough alone.
	case len(actions) == 0 && r.Delay == 0 && r.Slow == 0:
		return invalid("no action: want one of error, delay, slow, reset, truncate, corrupt, unanswered, throttle and " +
			"secondary")
	case r.Error != "" && Errors[r.Error] == nil:
		return invalid("error is %q, want ServerBusy, OperationTimedOut or InternalError", r.Error)
	case r.Reset != "" && !slices.Contains([]string{"before", "during", "after"}, r.Reset):
		return invalid("reset is %q, want before, during or after", r.Reset)
	case r.Truncate != nil && *r.Truncate < 0 || r.Corrupt != nil && *r.Corrupt < 0:
		return invalid("an offset is negative")
	case r.CorruptRequest && r.Corrupt == nil:
		return invalid("corruptRequest goes with corrupt")
	case r.RetryAfter != 0 && r.Error == "" && r.Throttle == nil:
		return invalid("retryAfter goes with error and throttle")
	case r.Secondary != nil:
		return r.Secondary.validate(r)
	case r.Throttle != nil:
		if r.Throttle.entities() && r.Service != "" && r.Service != "table" {
			return invalid("throttle: entities are those of tables, not of the service %s", r.Service)
		}
		return r.Throttle.validate()
	}
	return nil
}

// entities reports whether the limit is one on entities.
func (t *Throttle) entities() bool { return t.PartitionEntities != 0 || t.AccountEntities != 0 }

func (t *Throttle) validate() error {
	switch {
	case t.entities() && (t.Requests != 0 || t.Bytes != 0 || t.Per != "" ||
		!(t.PartitionEntities >= 0 && t.PartitionEntities <= 1e9 && t.AccountEntities >= 0 && t.AccountEntities <= 1e9)):
		return invalid("throttle: want positive numbers of entities per second, without requests, bytes and per")
	case t.entities():
		return nil
	case (t.Requests > 0) == (t.Bytes > 0) || t.Requests < 0 || t.Bytes < 0 || t.Requests > 1e9 || t.Bytes > 1e15:
		return invalid("throttle: want a positive number of either requests or bytes per second")
	case !slices.Contains([]string{"", "account", "container", "partition"}, t.Per):
		return invalid("throttle: per is %q, want account, container or partition", t.Per)
	}
	return nil
}

func validName(name string) bool {
	return len(name) <= maxName &&
		strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}
