package workers

import (
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// Encoding is the encoding of message bodies in a queue.
type Encoding string

const (
	// Base64 is the default, as in Azure Functions.
	Base64 Encoding = "base64"
	// NoEncoding stores bodies as plain text.
	NoEncoding Encoding = "none"
)

// WithConnection names the connection to use. See Config.Connections.
func WithConnection(name string) CommonOption {
	return commonOption(func(s *trigger.Settings) { s.Connection = name })
}

// WithQueueName sets the queue's name. Default: the function's name.
func WithQueueName(name string) QueueOption {
	return queueOption(func(s *trigger.Settings) { s.QueueName = name })
}

// WithExistingQueue leaves the creation of the queue to others: the function waits until it exists. Without the option
// the function creates it. Azure Functions never does.
func WithExistingQueue() QueueOption {
	return queueOption(func(s *trigger.Settings) { s.Wait = true })
}

// WithMessageEncoding sets the encoding of message bodies. A message whose body cannot be decoded is moved to the
// poison queue without calling the handler. Default Base64.
func WithMessageEncoding(e Encoding) QueueOption {
	return queueOption(func(s *trigger.Settings) { s.Encoding = string(e) })
}

// WithBatchSize sets the maximum number of messages that one request receives, 1 to 32. Default 16.
func WithBatchSize(n int) MessageOption {
	return messageOption(func(s *trigger.Settings) { s.BatchSize = n })
}

// WithNewBatchThreshold sets the number of in-flight messages at or below which the next batch is fetched. At most
// batch size + threshold messages are in flight on one instance; a batch size of 1 with a threshold of 0 handles one
// message at a time. Default: half the batch size for each processor.
func WithNewBatchThreshold(n int) MessageOption {
	return messageOption(func(s *trigger.Settings) { s.NewBatchThreshold = n })
}

// WithConcurrency sets batch size and threshold so that at most n messages are in flight on one instance.
func WithConcurrency(n int) MessageOption {
	return messageOption(func(s *trigger.Settings) {
		s.BatchSize = min(32, n/2+1)
		s.NewBatchThreshold = n - s.BatchSize
	})
}

// WithMaxDequeueCount sets the number of attempts after which a failing message is moved to the poison queue, at least
// 1. Default 5.
func WithMaxDequeueCount(n int) MessageOption {
	return messageOption(func(s *trigger.Settings) { s.MaxDequeueCount = int64(n) })
}

// WithVisibilityTimeout sets how long a message stays invisible after a failed attempt; for the lease see WithLease. It
// is the same as WithRetry(Fixed(d)). Default 0.
func WithVisibilityTimeout(d time.Duration) MessageOption { return WithRetry(Fixed(d)) }

// WithRetry sets how long a message stays invisible after each failed attempt. Default Fixed(0).
func WithRetry(p RetryPolicy) CommonOption {
	return commonOption(func(s *trigger.Settings) { s.Retry = p })
}

// WithMaxPollingInterval sets the maximum interval between polls of an empty queue, at least 100 ms. Default 1 min, or
// 2 s if the account is on this machine.
func WithMaxPollingInterval(d time.Duration) MessageOption {
	return messageOption(func(s *trigger.Settings) { s.MaxPolling = d })
}

// WithLease sets how long a received message is hidden from other instances, in whole seconds from 1 s to 7 days. The
// lease is renewed at half its length while the handler runs, so it only limits how long a message stays hidden after
// its instance died. Default 1 min. (Azure Functions: 10 min, not settable.)
func WithLease(d time.Duration) MessageOption {
	return messageOption(func(s *trigger.Settings) { s.Lease = d })
}

// WithTimeout cancels a handler's context after d, with the cause ErrTimeout. Default: no limit.
func WithTimeout(d time.Duration) CommonOption {
	return commonOption(func(s *trigger.Settings) { s.Timeout = d })
}
