package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
)

// The moments around what a rate limit writes.
var (
	pointRateTaken     = fault.Declare("rates/after-take")
	pointRateCounted   = fault.Declare("rates/after-count")
	PointRatePostponed = fault.Declare("rates/after-put-back")
)

// rateLimitTable is the table with the rows of rate limits. A function has a partition in it: a row for its limit, one
// for each key, and one for each message that was put back.
const rateLimitTable = "lazuliratelimits"

// The RowKeys of a function's partition.
const (
	rateOfFunction   = "function"
	rateOfKeyPrefix  = "key-"
	rateOfHashPrefix = "hash-"
	rateOfMessage    = "message-"
)

// rateRow is a row of rateLimitTable.
type rateRow struct {
	Function string `table:"PartitionKey"`
	ID       string `table:"RowKey"`
	ETag     azcore.ETag
	// Next and Line are those of bucket; of a message, Next is when it comes again.
	Next, Line time.Time
	// Key is the key in clear, cut off at 200 bytes.
	Key string
	// PutBack is how often a message was put back: so many of its deliveries were no attempts.
	PutBack int64
}

// maxSkew is the difference between the instance's clock and the service's up to which it is not corrected: the service
// reports whole seconds, and the answer takes time.
const maxSkew = 2 * time.Second

// tablePrecision is that of a time in a table.
const tablePrecision = 100 * time.Nanosecond

// rateStore reads and writes the rows of one function.
type rateStore struct {
	table    *tables.Table[rateRow]
	function string
	clock    calls.Clock

	mu     sync.Mutex    // guards offset
	offset time.Duration // of the service's time from the clock's; 0 if they differ by less than maxSkew
}

func newRateStore(service *aztables.ServiceClient, function string, clock calls.Clock) (*rateStore, error) {
	if service == nil {
		return nil, errors.New("a rate limit needs tables, and the connection string has no table endpoint")
	}
	t, err := tables.New[rateRow](service, rateLimitTable, tables.CreateIfMissing())
	return &rateStore{table: t, function: plainKey("", function), clock: clock}, err
}

var plainKeys = lazyregexp.New(`^[A-Za-z0-9_.:@-]{1,200}$`)

// plainKey makes a key of a row: the text after a prefix, or its hash if it has characters that keys cannot have.
func plainKey(prefix, text string) string {
	if plainKeys().MatchString(text) {
		return prefix + text
	}
	sum := sha256.Sum256([]byte(text))
	return rateOfHashPrefix + hex.EncodeToString(sum[:])
}

// now is the service's time, as far as the instance knows.
func (s *rateStore) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.Now().Add(s.offset).Truncate(tablePrecision)
}

// until returns how long it is until a time of the service.
func (s *rateStore) until(at time.Time) time.Duration { return at.Sub(s.now()) }

// observed sends a request, and compares the clock with the answer's.
func (s *rateStore) observed(ctx context.Context, send func(context.Context) error) error {
	var answer *http.Response
	before := s.clock.Now()
	err := send(policy.WithCaptureResponse(ctx, &answer))
	after := s.clock.Now()
	if answer == nil {
		return err
	}
	date, dateErr := http.ParseTime(answer.Header.Get("Date"))
	if dateErr != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset = clockOffset(before, after, date)
	return err
}

// clockOffset is what to add to a clock that showed before and after around an answer, dated in whole seconds.
func clockOffset(before, after, date time.Time) time.Duration {
	switch end := date.Add(time.Second); {
	case after.Before(date.Add(-maxSkew)):
		return date.Sub(after)
	case before.After(end.Add(maxSkew)):
		return end.Sub(before)
	}
	return 0
}

// read returns a row; one without ETag if it does not exist.
func (s *rateStore) read(ctx context.Context, id string) (rateRow, error) {
	row := rateRow{Function: s.function, ID: id}
	err := s.observed(ctx, func(ctx context.Context) error {
		got, err := s.table.Get(ctx, tables.Key{PartitionKey: s.function, RowKey: id})
		if err == nil {
			row = got
		}
		return err
	})
	if errors.Is(err, tables.ErrNotFound) || errors.Is(err, tables.ErrTableNotFound) {
		err = nil
	}
	return row, err
}

// write stores a row unless another instance has changed it: with its ETag, or without one as a new row. A write whose
// answer was lost may have happened: times that it has reserved stay unused.
func (s *rateStore) write(ctx context.Context, row *rateRow) (changed bool, err error) {
	err = s.observed(ctx, func(ctx context.Context) error {
		if row.ETag == "" {
			return s.table.Insert(ctx, row)
		}
		return s.table.Replace(ctx, row)
	})
	if errors.Is(err, tables.ErrExists) || errors.Is(err, tables.ErrChanged) || errors.Is(err, tables.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// count notes that a message is put back, before it is: a crash in between costs it no attempt, since its next delivery
// counts and this one was none.
func (s *rateStore) count(ctx context.Context, message string, putBack int64, until time.Time) error {
	row := rateRow{Function: s.function, ID: rateOfMessage + message, PutBack: putBack, Next: until, Line: until}
	if err := s.table.InsertOrReplace(ctx, &row); err != nil {
		return err
	}
	return fault.Point(pointRateCounted)
}

// putBack returns how often a message was put back.
func (s *rateStore) putBack(ctx context.Context, message string) (int64, error) {
	row, err := s.read(ctx, rateOfMessage+message)
	return row.PutBack, err
}

// forget deletes the row of a message that was put back. What a crash leaves is deleted by sweep.
func (s *rateStore) forget(ctx context.Context, message string) error {
	err := s.table.DeleteKey(ctx, tables.Key{PartitionKey: s.function, RowKey: rateOfMessage + message})
	if errors.Is(err, tables.ErrNotFound) || errors.Is(err, tables.ErrTableNotFound) {
		return nil
	}
	return err
}

const (
	// sweepEvery is the interval of sweeps, and the time after which the row of a key is old: by then it says nothing
	// that a new row would not.
	sweepEvery = time.Hour
	// oldMessage is when the row of a message is old: no message is hidden longer than seven days.
	oldMessage = 8 * 24 * time.Hour
	// maxSweep is the number of rows that one sweep deletes.
	maxSweep = 10_000
)

// sweep deletes old rows. A row that is used meanwhile has another ETag and stays.
func (s *rateStore) sweep(ctx context.Context, burst time.Duration) error {
	now := s.now()
	deleted := 0
	for row, err := range s.table.Query(tables.PartitionKey.Eq(s.function),
		tables.Field("Next").Lt(now.Add(-sweepEvery-burst))).AllowScan().All(ctx) {
		switch {
		case errors.Is(err, tables.ErrTableNotFound):
			return nil
		case err != nil:
			return err
		case strings.HasPrefix(row.ID, rateOfMessage) && row.Next.After(now.Add(-oldMessage)), row.ID == rateOfFunction,
			row.Line.After(now.Add(-sweepEvery)):
			continue
		}
		if err := s.table.Delete(ctx, &row); err != nil && !errors.Is(err, tables.ErrChanged) &&
			!errors.Is(err, tables.ErrNotFound) {
			return err
		}
		if deleted++; deleted == maxSweep {
			return nil
		}
	}
	return nil
}
