package workers

import (
	"maps"
	"slices"

	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// StrictPriority makes a function listen to several queues, the most important first: messages of a queue are received
// when those before it were found empty. While there are messages in a queue, those behind it wait, without a limit;
// with [WeightedPriority] each gets its share.
//
// The queues share the function's limits of concurrency. Messages that were received are not overtaken, so a small
// [WithConcurrency] gives way sooner. A queue that was found empty is asked again after 100 ms while others have
// messages. Each queue has its own poison queue. The option replaces [WithQueueName]; there can be 1 to 16 queues.
func StrictPriority(queues ...string) QueueOption {
	return queueOption(func(s *trigger.Settings) {
		s.Priority = &trigger.Priority{Strict: true}
		for _, name := range queues {
			s.Priority.Add(name, 1)
		}
	})
}

// WeightedPriority makes a function listen to several queues: each time that it can receive messages, a queue is chosen
// at random, with the weight as its share. With {"critical": 6, "default": 3, "low": 1} and messages in all three, six
// of ten batches come from the first. Queues without messages are left out. A weight is from 1 to 1,000.
//
// For the rest it is as [StrictPriority].
func WeightedPriority(weights map[string]int) QueueOption {
	return queueOption(func(s *trigger.Settings) {
		s.Priority = &trigger.Priority{}
		for _, name := range slices.Sorted(maps.Keys(weights)) {
			s.Priority.Add(name, weights[name])
		}
	})
}
