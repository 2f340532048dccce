package trigger

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/ratelimit"
)

// The values of Encoding.
const (
	Base64Encoding = "base64"
	NoEncoding     = "none"
)

// Retry determines how long a message stays invisible after a failed attempt: a workers.RetryPolicy.
type Retry = interface {
	Delay(attempts int64) time.Duration
}

// Settings are the settings of one function. Defaults are those of Azure Functions unless the option's comment says
// otherwise.
type Settings struct {
	Connection string
	QueueName  string
	Priority   *Priority // nil: one queue
	Wait       bool      // for the queue to be created by others
	Encoding   string

	BatchSize         int
	NewBatchThreshold int // -1: half of batchSize for each processor
	MaxDequeueCount   int64
	MaxPolling        time.Duration // 0: depends on whether the account is local
	Lease             time.Duration
	Retry             Retry
	Timeout           time.Duration            // 0: none
	Key               func(body []byte) string // nil: messages are not limited by key
	PerKey            int
	Rate, KeyRate     *ratelimit.Limit         // nil: not limited
	RateKey           func(body []byte) string // of keyRate

	Schedule     string
	Location     *time.Location // nil: UTC
	MaxRetries   int            // of a timer's run; negative: no limit
	RunOnStartup bool
	Monitor      *bool // nil: depends on the schedule

	Path   string
	Events bool // blobs are announced by BlobCreated, and the container is not scanned

	Table    string
	Existing bool
	Entities []tables.Option
	InOrder  bool
	Parallel int // of changes in order
}

// atOnce is the retry policy without a delay.
type atOnce struct{}

// Delay implements the policy.
func (atOnce) Delay(int64) time.Duration { return 0 }

func defaultSettings(name string) Settings {
	return Settings{
		Connection:        connstr.DefaultConnection,
		QueueName:         name,
		Encoding:          Base64Encoding,
		BatchSize:         16,
		NewBatchThreshold: -1,
		MaxDequeueCount:   5,
		Lease:             time.Minute,
		Retry:             atOnce{},
		Parallel:          16,
	}
}

// ValidateQueue returns an error for the first setting that is out of bounds.
func (s Settings) ValidateQueue() error {
	switch {
	case s.BatchSize < 1 || s.BatchSize > 32:
		return fmt.Errorf("batch size %d is not within 1 to 32", s.BatchSize)
	case s.NewBatchThreshold < -1:
		return fmt.Errorf("new batch threshold %d is negative", s.NewBatchThreshold)
	case s.MaxDequeueCount < 1:
		return fmt.Errorf("maximum dequeue count %d is less than 1", s.MaxDequeueCount)
	case s.MaxPolling != 0 && s.MaxPolling < queues.MinPollingInterval:
		return fmt.Errorf("maximum polling interval %v is less than %v", s.MaxPolling, queues.MinPollingInterval)
	case s.Lease < time.Second || s.Lease > queues.MaxLease || s.Lease%time.Second != 0:
		return fmt.Errorf("lease %v is not a whole number of seconds from 1 s to 7 days", s.Lease)
	case s.Encoding != Base64Encoding && s.Encoding != NoEncoding:
		return fmt.Errorf("message encoding %q is neither %q nor %q", s.Encoding, Base64Encoding, NoEncoding)
	case s.Retry == nil:
		return fmt.Errorf("retry policy is nil")
	case s.Timeout < 0:
		return fmt.Errorf("timeout %v is negative", s.Timeout)
	}
	if err := errors.Join(s.validateKeys(), s.Priority.validate(), s.validateRates()); err != nil {
		return err
	}
	return queues.ValidateName(s.QueueName)
}

// validateRates checks the settings of WithRateLimit and WithRateLimitPerKey.
func (s Settings) validateRates() error {
	if s.KeyRate != nil && s.RateKey == nil {
		return errors.New("rate limit per key: the key function is nil")
	}
	return errors.Join(s.Rate.Validate(), s.KeyRate.Validate())
}

// HashedQueueName is the name of the queue between the instance that finds changes and the handlers. The hash makes it
// a valid queue name.
func HashedQueueName(prefix, hostID, function string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(hostID + "/" + function))
	return fmt.Sprintf("%s%016x", prefix, h.Sum64())
}

// validateKeys checks the settings of ConcurrencyPerKey.
func (s Settings) validateKeys() error {
	switch {
	case s.PerKey == 0 && s.Key == nil:
		return nil
	case s.Key == nil:
		return errors.New("concurrency per key: the key function is nil")
	case s.PerKey < 1:
		return fmt.Errorf("concurrency per key %d is less than 1", s.PerKey)
	}
	return nil
}
