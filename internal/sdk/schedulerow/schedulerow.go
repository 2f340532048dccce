// Package schedulerow keeps schedules: rows of a table that say when a message is put into which queue.
//
// Programs, the command and the dashboard change the rows; the role of package workers puts the messages, and it alone
// writes the fields Last, Runs and Pending. Every write has the ETag of what was read as its condition, so that neither
// loses the other's.
package schedulerow

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/sdk/ncrontab"
	"github.com/lazuli-storage/lazuli/tables"
)

// Table is the table of schedules, and Partition the partition of all of them.
const (
	Table     = "lazulischedules"
	Partition = "schedules"
)

// Policies for occurrences that were missed; see workers.CatchUp.
const (
	Once = "once"
	Skip = "skip"
	All  = "all"
)

// Encodings of messages.
const (
	Base64     = "base64"
	NoEncoding = "none"
)

// lateMinute is how late an occurrence with Skip may be: another instance takes over in less.
const lateMinute = time.Minute

// MaxBody is the largest body in bytes: what a message of 64 KiB holds in base64, less what Text adds.
const MaxBody = 45 << 10

// Failures, for errors.Is. Nothing was changed.
var (
	ErrExists   = errors.New("the schedule exists already")
	ErrNotFound = errors.New("the schedule does not exist")
	ErrChanged  = errors.New("the schedule was changed meanwhile")
)

// Row is a schedule.
type Row struct {
	Partition string `table:"PartitionKey"`
	Name      string `table:"RowKey"`
	ETag      azcore.ETag

	Expression, TimeZone, Queue string
	Body                        []byte
	Encoding, CatchUp           string
	MaxCatchUp                  int64
	Paused                      bool
	// Next is the next occurrence, nil while the schedule is paused, and Last the last one for which a message was put.
	Next, Last *time.Time
	Created    time.Time
	Runs       int64
	// These name a message that belongs to the occurrence Last and may be hidden still; empty if it is shown.
	PendingQueue, PendingID, PendingReceipt string
}

var (
	names      = lazyregexp.New(`^[A-Za-z0-9_.:-]{1,200}$`)
	queueNames = lazyregexp.New(`^[a-z0-9]+(-[a-z0-9]+)*$`)
)

// Times returns when the schedule comes.
func (r *Row) Times() (ncrontab.Schedule, error) {
	s, err := ncrontab.Parse(r.Expression)
	if err != nil {
		return s, err
	}
	location, err := time.LoadLocation(r.TimeZone)
	if err != nil || r.TimeZone == "Local" {
		return s, fmt.Errorf("the time zone %q is not known", r.TimeZone)
	}
	return s.In(location), nil
}

// Complete sets what is empty to its default and checks the rest.
func (r *Row) Complete() error {
	r.Partition = Partition
	if r.Encoding == "" {
		r.Encoding = Base64
	}
	if r.CatchUp == "" {
		r.CatchUp = Once
	}
	if r.MaxCatchUp == 0 {
		r.MaxCatchUp = 100
	}
	if err := r.check(); err != nil {
		return &InvalidError{Name: r.Name, Err: err}
	}
	return nil
}

// InvalidError means that what a schedule states is wrong, such as its expression. Nothing was sent.
type InvalidError struct {
	Name string
	Err  error
}

func (e *InvalidError) Error() string { return fmt.Sprintf("schedule %q: %v", e.Name, e.Err) }

// Unwrap returns what is wrong.
func (e *InvalidError) Unwrap() error { return e.Err }

func (r *Row) check() error {
	if !names().MatchString(r.Name) {
		return errors.New("the name is not 1 to 200 letters, digits, '-', '_', '.' and ':'")
	}
	times, err := r.Times()
	if err != nil {
		return err
	}
	switch {
	case times.Next(time.Now()).IsZero():
		return fmt.Errorf("the expression %q never comes", r.Expression)
	case len(r.Queue) < 3 || len(r.Queue) > 63 || !queueNames().MatchString(r.Queue):
		return fmt.Errorf("the queue name %q is not 3 to 63 lower-case letters, digits and single dashes between them",
			r.Queue)
	case len(r.Body) > MaxBody:
		return fmt.Errorf("the body has %d bytes; at most %d are allowed", len(r.Body), MaxBody)
	case r.Encoding != Base64 && r.Encoding != NoEncoding:
		return fmt.Errorf("message encoding %q is neither %q nor %q", r.Encoding, Base64, NoEncoding)
	case !slices.Contains([]string{Once, Skip, All}, r.CatchUp):
		return fmt.Errorf("the catch-up policy %q is not %q, %q or %q", r.CatchUp, Once, Skip, All)
	case r.MaxCatchUp < 1 || r.MaxCatchUp > 1000:
		return fmt.Errorf("a catch-up of %d messages is not within 1 to 1000", r.MaxCatchUp)
	}
	return nil
}

// start sets the next occurrence after now, or none while the schedule is paused.
func (r *Row) start(now time.Time) error {
	r.Next = nil
	times, err := r.Times()
	if err != nil || r.Paused {
		return err
	}
	r.SetNext(times.Next(now))
	return nil
}

// SetNext sets the next occurrence; none comes after the zero time.
func (r *Row) SetNext(at time.Time) {
	r.Next = nil
	if !at.IsZero() {
		r.Next = &at
	}
}

// Store is the table of an account.
type Store struct{ *tables.Table[Row] }

// Open opens the table, which is created with the first schedule.
func Open(service *aztables.ServiceClient) (Store, error) {
	t, err := tables.New[Row](service, Table, tables.CreateIfMissing())
	return Store{t}, err
}

// Create stores a new schedule, which is complete. Its first occurrence is the first one after the service's time.
func (s Store) Create(ctx context.Context, r *Row) error {
	now, err := s.now(ctx, r.Name)
	if err != nil {
		return err
	}
	r.Created = now
	if err := r.start(now); err != nil {
		return err
	}
	return failure(r.Name, s.Insert(ctx, r))
}

// Upsert is Create, or changes the schedule of that name. One that exists stays paused or not, and keeps its next
// occurrence unless the expression or the time zone is another one.
func (s Store) Upsert(ctx context.Context, wanted *Row) error {
	err := s.Create(ctx, wanted)
	if !errors.Is(err, ErrExists) {
		return err
	}
	return s.change(ctx, wanted.Name, func(row *Row, now time.Time) error {
		moved := row.Expression != wanted.Expression || row.TimeZone != wanted.TimeZone
		row.Expression, row.TimeZone, row.Queue, row.Body = wanted.Expression, wanted.TimeZone, wanted.Queue, wanted.Body
		row.Encoding, row.CatchUp, row.MaxCatchUp = wanted.Encoding, wanted.CatchUp, wanted.MaxCatchUp
		if moved {
			return row.start(now)
		}
		return nil
	})
}

// Pause lets a schedule put no messages.
func (s Store) Pause(ctx context.Context, name string) error {
	return s.change(ctx, name, func(row *Row, _ time.Time) error {
		row.Paused, row.Next = true, nil
		return nil
	})
}

// Resume ends a pause: the next occurrence is the first one from now on.
func (s Store) Resume(ctx context.Context, name string) error {
	return s.change(ctx, name, func(row *Row, now time.Time) error {
		if !row.Paused {
			return nil
		}
		row.Paused = false
		return row.start(now)
	})
}

// Remove deletes a schedule.
func (s Store) Remove(ctx context.Context, name string) error {
	if !names().MatchString(name) {
		return fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	return failure(name, s.DeleteKey(ctx, keyOf(name)))
}

// Get returns a schedule.
func (s Store) Get(ctx context.Context, name string) (Row, error) {
	if !names().MatchString(name) {
		return Row{}, fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	row, err := s.Table.Get(ctx, keyOf(name))
	return row, failure(name, err)
}

// List returns all schedules, by name.
func (s Store) List(ctx context.Context) ([]Row, error) {
	var list []Row
	for row, err := range s.Query(tables.PartitionKey.Eq(Partition)).All(ctx) {
		if errors.Is(err, tables.ErrTableNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list the schedules: %w", err)
		}
		list = append(list, row)
	}
	return list, nil
}

// Due returns the schedules that come until then, and those of whose last message it is not known whether it is shown.
func (s Store) Due(ctx context.Context, until time.Time) ([]Row, error) {
	var list []Row
	for row, err := range s.Query(tables.PartitionKey.Eq(Partition),
		tables.Or(tables.Field("Next").Le(until), tables.Field("PendingID").Gt(""))).AllowScan().All(ctx) {
		if errors.Is(err, tables.ErrTableNotFound) {
			return nil, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, row)
	}
	return list, nil
}

// Put writes a row unless someone else has changed or deleted it, which is ErrChanged.
func (s Store) Put(ctx context.Context, row *Row) error {
	err := s.Replace(ctx, row)
	if errors.Is(err, tables.ErrChanged) || errors.Is(err, tables.ErrNotFound) {
		return ErrChanged
	}
	return err
}

func keyOf(name string) tables.Key { return tables.Key{PartitionKey: Partition, RowKey: name} }

// now returns the service's time in whole seconds, so that the machine of a command needs no exact clock.
func (s Store) now(ctx context.Context, name string) (time.Time, error) {
	var answer *http.Response
	_, err := s.Client().GetEntity(policy.WithCaptureResponse(ctx, &answer), Partition, name, nil)
	var refused *azcore.ResponseError
	if err != nil && !(errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound) {
		return time.Time{}, failure(name, err)
	}
	if answer != nil {
		if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
			return date.UTC(), nil
		}
	}
	return time.Now().UTC(), nil
}

// change changes a row unless someone else does at the same time, and tries again then.
func (s Store) change(ctx context.Context, name string, change func(row *Row, now time.Time) error) error {
	for {
		row, err := s.Get(ctx, name)
		if err != nil {
			return err
		}
		now, err := s.now(ctx, name)
		if err != nil {
			return err
		}
		if err := change(&row, now); err != nil {
			return fmt.Errorf("schedule %q: %w", name, err)
		}
		if err := s.Replace(ctx, &row); !errors.Is(err, tables.ErrChanged) {
			return failure(name, err)
		}
		// Each round that fails is one in which another writer succeeded.
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func failure(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, tables.ErrExists):
		return fmt.Errorf("%w: %q", ErrExists, name)
	case errors.Is(err, tables.ErrNotFound), errors.Is(err, tables.ErrTableNotFound):
		return fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	return fmt.Errorf("schedule %q: %w", name, err)
}

// Occurrences returns the occurrences from next to now for which messages are to be put, the oldest first, and the one
// that follows; zero if none does.
func Occurrences(times ncrontab.Schedule, next, now time.Time, policy string, most int) (due []time.Time,
	after time.Time) {
	if next.After(now) {
		return nil, next
	}
	if policy != All {
		most = 1
	}
	// The last ones are found from the end: there may be millions.
	for at := now; len(due) < most; at = due[len(due)-1].Add(-1) {
		last, ok := lastOccurrence(times, next, at)
		if !ok {
			break
		}
		due = append(due, last)
	}
	slices.Reverse(due)
	after = times.Next(due[len(due)-1])
	if policy == Skip && now.Sub(due[0]) > lateMinute {
		due = nil
	}
	return due, after
}

// lastOccurrence returns the last occurrence that is not before first, which is one, and not after end.
func lastOccurrence(times ncrontab.Schedule, first, end time.Time) (time.Time, bool) {
	if first.After(end) {
		return time.Time{}, false
	}
	if every := times.Interval(); every > 0 {
		return first.Add(end.Sub(first) / every * every), true
	}
	// low has an occurrence at it or after it, and high none: it is the last one when a second is left between them.
	low, high := first, end.Add(1)
	found := first
	for high.Sub(low) > 1 {
		middle := low.Add(high.Sub(low) / 2)
		next := times.Next(middle)
		if next.IsZero() || next.After(end) {
			high = middle
			continue
		}
		found, low = next, next
	}
	return found, true
}

// Text is the text of the message for an occurrence.
func (r *Row) Text(at time.Time) string {
	body := r.Body
	if inner, ok := strings.CutPrefix(strings.TrimSpace(string(body)), "{"); ok && json.Valid(body) {
		var members map[string]json.RawMessage
		if json.Unmarshal(body, &members) == nil && members["schedule"] == nil && members["scheduledTime"] == nil {
			head := fmt.Sprintf(`{"schedule":%q,"scheduledTime":%q`, r.Name, at.UTC().Format(time.RFC3339))
			if len(members) > 0 {
				head += ","
			}
			body = []byte(head + strings.TrimSpace(inner))
		}
	}
	if r.Encoding == Base64 {
		return base64.StdEncoding.EncodeToString(body)
	}
	return string(body)
}
