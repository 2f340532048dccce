package state

import "time"

// NextVisible returns how long after now the next of the queue's hidden messages becomes visible, as far as this process knows: 0 if
// one is visible, and an hour, or more, if there is none. It is a hint of when to look again.
func (q *Queue) NextVisible(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.index.heap) == 0 {
		return time.Hour
	}
	first := *q.index.entries.at(q.index.heap[0])
	return max(0, time.Duration(first.visible-now.UnixNano()))
}
