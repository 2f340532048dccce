package workers

import (
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// Option is an option of at least one kind of trigger. Which kinds accept it is part of its type:
//
//	option type     accepted by
//	QueueOption     App.Queue, Queue
//	BlobOption      App.Blob
//	TableOption     App.Table, Table
//	TimerOption     App.Timer
//	MessageOption   all but timers: triggers whose work travels as queue messages
//	CommonOption    all triggers
//
// An option that a trigger does not have does not compile. The interfaces are implemented by the With functions and
// [ConcurrencyPerKey] only.
type Option interface{ apply(*trigger.Settings) }

// QueueOption is an option of queue triggers.
type QueueOption interface {
	Option
	forQueue()
}

// BlobOption is an option of blob triggers.
type BlobOption interface {
	Option
	forBlob()
}

// TableOption is an option of table triggers.
type TableOption interface {
	Option
	forTable()
}

// TimerOption is an option of timer triggers.
type TimerOption interface {
	Option
	forTimer()
}

// MessageOption is an option of queue, blob and table triggers. Blob and table triggers put a queue message for each
// change, so leases, retries and limits of concurrency apply to them as they do to queue triggers.
type MessageOption interface {
	QueueOption
	BlobOption
	TableOption
}

// CommonOption is an option of every trigger.
type CommonOption interface {
	MessageOption
	TimerOption
}

type (
	queueOption   func(*trigger.Settings)
	blobOption    func(*trigger.Settings)
	tableOption   func(*trigger.Settings)
	timerOption   func(*trigger.Settings)
	messageOption func(*trigger.Settings)
	commonOption  func(*trigger.Settings)
)

func (o queueOption) apply(s *trigger.Settings) { o(s) }

func (o blobOption) apply(s *trigger.Settings) { o(s) }

func (o tableOption) apply(s *trigger.Settings) { o(s) }

func (o timerOption) apply(s *trigger.Settings) { o(s) }

func (o messageOption) apply(s *trigger.Settings) { o(s) }

func (o commonOption) apply(s *trigger.Settings) { o(s) }

func (queueOption) forQueue() {}

func (messageOption) forQueue() {}

func (commonOption) forQueue() {}

func (blobOption) forBlob() {}

func (messageOption) forBlob() {}

func (commonOption) forBlob() {}

func (tableOption) forTable() {}

func (messageOption) forTable() {}

func (commonOption) forTable() {}

func (timerOption) forTimer() {}

func (commonOption) forTimer() {}
