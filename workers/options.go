package workers

import (
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/tables"
)

// Encoding is the encoding of message bodies in a queue.
type Encoding string

const (
	// Base64 is the default, as in Azure Functions.
	Base64 Encoding = "base64"
	// NoEncoding stores bodies as plain text.
	NoEncoding Encoding = "none"
)

// settings are the settings of one function. Defaults are those of Azure Functions unless the option's comment says
// otherwise.
type settings struct {
	connection string
	queueName  string
	priority   *priority // nil: one queue
	wait       bool      // for the queue to be created by others
	encoding   Encoding

	batchSize         int
	newBatchThreshold int // -1: half of batchSize for each processor
	maxDequeueCount   int64
	maxPolling        time.Duration // 0: depends on whether the account is local
	lease             time.Duration
	retry             RetryPolicy
	timeout           time.Duration            // 0: none
	key               func(body []byte) string // nil: messages are not limited by key
	perKey            int
	rate, keyRate     *Rate                    // nil: not limited
	rateKey           func(body []byte) string // of keyRate

	schedule     string
	location     *time.Location // nil: UTC
	maxRetries   int            // of a timer's run; negative: no limit
	runOnStartup bool
	monitor      *bool // nil: depends on the schedule

	path   string
	events bool // blobs are announced by BlobCreated, and the container is not scanned

	table    string
	existing bool
	entities []tables.Option
	inOrder  bool
	parallel int // of changes in order
}

func defaultSettings(name string) settings {
	return settings{
		connection:        connstr.DefaultConnection,
		queueName:         name,
		encoding:          Base64,
		batchSize:         16,
		newBatchThreshold: -1,
		maxDequeueCount:   5,
		lease:             time.Minute,
		retry:             Fixed(0),
		parallel:          16,
	}
}

// WithConnection names the connection to use. See Config.Connections.
func WithConnection(name string) CommonOption {
	return commonOption(func(s *settings) { s.connection = name })
}

// WithQueueName sets the queue's name. Default: the function's name.
func WithQueueName(name string) QueueOption {
	return queueOption(func(s *settings) { s.queueName = name })
}

// WithExistingQueue leaves the creation of the queue to others: the function waits until it exists. Without the option
// the function creates it. Azure Functions never does.
func WithExistingQueue() QueueOption {
	return queueOption(func(s *settings) { s.wait = true })
}

// WithMessageEncoding sets the encoding of message bodies. A message whose body cannot be decoded is moved to the
// poison queue without calling the handler. Default Base64.
func WithMessageEncoding(e Encoding) QueueOption {
	return queueOption(func(s *settings) { s.encoding = e })
}

// WithBatchSize sets the maximum number of messages that one request receives, 1 to 32. Default 16.
func WithBatchSize(n int) MessageOption {
	return messageOption(func(s *settings) { s.batchSize = n })
}

// WithNewBatchThreshold sets the number of in-flight messages at or below which the next batch is fetched. At most
// batch size + threshold messages are in flight on one instance; a batch size of 1 with a threshold of 0 handles one
// message at a time. Default: half the batch size for each processor.
func WithNewBatchThreshold(n int) MessageOption {
	return messageOption(func(s *settings) { s.newBatchThreshold = n })
}

// WithConcurrency sets batch size and threshold so that at most n messages are in flight on one instance.
func WithConcurrency(n int) MessageOption {
	return messageOption(func(s *settings) {
		s.batchSize = min(32, n/2+1)
		s.newBatchThreshold = n - s.batchSize
	})
}

// WithMaxDequeueCount sets the number of attempts after which a failing message is moved to the poison queue, at least
// 1. Default 5.
func WithMaxDequeueCount(n int) MessageOption {
	return messageOption(func(s *settings) { s.maxDequeueCount = int64(n) })
}

// WithVisibilityTimeout sets how long a message stays invisible after a failed attempt; for the lease see WithLease. It
// is the same as WithRetry(Fixed(d)). Default 0.
func WithVisibilityTimeout(d time.Duration) MessageOption { return WithRetry(Fixed(d)) }

// WithRetry sets how long a message stays invisible after each failed attempt. Default Fixed(0).
func WithRetry(p RetryPolicy) CommonOption {
	return commonOption(func(s *settings) { s.retry = p })
}

// WithMaxPollingInterval sets the maximum interval between polls of an empty queue, at least 100 ms. Default 1 min, or
// 2 s if the account is on this machine.
func WithMaxPollingInterval(d time.Duration) MessageOption {
	return messageOption(func(s *settings) { s.maxPolling = d })
}

// WithLease sets how long a received message is hidden from other instances, in whole seconds from 1 s to 7 days. The
// lease is renewed at half its length while the handler runs, so it only limits how long a message stays hidden after
// its instance died. Default 1 min. (Azure Functions: 10 min, not settable.)
func WithLease(d time.Duration) MessageOption {
	return messageOption(func(s *settings) { s.lease = d })
}

// WithTimeout cancels a handler's context after d, with the cause ErrTimeout. Default: no limit.
func WithTimeout(d time.Duration) CommonOption {
	return commonOption(func(s *settings) { s.timeout = d })
}

const maxLease = 7 * 24 * time.Hour

// validateQueue returns an error for the first setting that is out of bounds.
func (s settings) validateQueue() error {
	switch {
	case s.batchSize < 1 || s.batchSize > 32:
		return fmt.Errorf("batch size %d is not within 1 to 32", s.batchSize)
	case s.newBatchThreshold < -1:
		return fmt.Errorf("new batch threshold %d is negative", s.newBatchThreshold)
	case s.maxDequeueCount < 1:
		return fmt.Errorf("maximum dequeue count %d is less than 1", s.maxDequeueCount)
	case s.maxPolling != 0 && s.maxPolling < minPollingInterval:
		return fmt.Errorf("maximum polling interval %v is less than %v", s.maxPolling, minPollingInterval)
	case s.lease < time.Second || s.lease > maxLease || s.lease%time.Second != 0:
		return fmt.Errorf("lease %v is not a whole number of seconds from 1 s to 7 days", s.lease)
	case s.encoding != Base64 && s.encoding != NoEncoding:
		return fmt.Errorf("message encoding %q is neither %q nor %q", s.encoding, Base64, NoEncoding)
	case s.retry == nil:
		return fmt.Errorf("retry policy is nil")
	case s.timeout < 0:
		return fmt.Errorf("timeout %v is negative", s.timeout)
	}
	if err := errors.Join(s.validateKeys(), s.priority.validate(), s.validateRates()); err != nil {
		return err
	}
	return validateQueueName(s.queueName)
}

// validateQueueName checks the rules of
// https://learn.microsoft.com/rest/api/storageservices/naming-queues-and-metadata.
func validateQueueName(name string) error {
	if len(name) < 3 || len(name) > 63 {
		return fmt.Errorf("queue name %q is not 3 to 63 characters long", name)
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		inner := i > 0 && i < len(name)-1
		if !letter && (c != '-' || !inner || name[i-1] == '-') {
			return fmt.Errorf("queue name %q may hold only lower-case letters, digits and single dashes between them", name)
		}
	}
	return nil
}
