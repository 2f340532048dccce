package chaos

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// TestHistoryOfMessages gives the checker histories in which a promise is broken, and right ones.
func TestHistoryOfMessages(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return time.Unix(int64(1000+seconds), 0) }
	message := func(id string, count int64, hidden int) *azqueue.DequeuedMessage {
		return &azqueue.DequeuedMessage{MessageText: to.Ptr("m"), MessageID: &id, DequeueCount: &count,
			TimeNextVisible: to.Ptr(at(hidden))}
	}
	for _, tc := range []struct {
		name string
		do   func(q *sharedQueue, m *sharedMessage)
		want Kind // "" if nothing is wrong
	}{
		{"delivered twice, the second time when it was visible again", func(q *sharedQueue, _ *sharedMessage) {
			q.delivered(message("a", 1, 4), at(0), at(1))
			q.delivered(message("a", 2, 9), at(3), at(5))
		}, ""},
		{"delivered while it was hidden", func(q *sharedQueue, _ *sharedMessage) {
			q.delivered(message("a", 1, 4), at(0), at(1))
			q.delivered(message("a", 2, 9), at(2), at(3))
		}, Doubled},
		{"delivered while it was hidden, and answered in the other order", func(q *sharedQueue, _ *sharedMessage) {
			q.delivered(message("a", 2, 9), at(2), at(3))
			q.delivered(message("a", 1, 4), at(0), at(4))
		}, Doubled},
		{"delivered twice, and the first answer came last", func(q *sharedQueue, _ *sharedMessage) {
			q.delivered(message("a", 2, 9), at(4), at(5))
			q.delivered(message("a", 1, 4), at(0), at(6))
		}, ""},
		{"delivered twice with one dequeue count", func(q *sharedQueue, _ *sharedMessage) {
			q.delivered(message("a", 1, 4), at(0), at(1))
			q.delivered(message("a", 1, 9), at(5), at(6))
		}, Doubled},
		{"stored twice", func(q *sharedQueue, _ *sharedMessage) {
			q.delivered(message("a", 1, 4), at(0), at(1))
			q.delivered(message("b", 2, 9), at(5), at(6))
		}, Doubled},
		{"delivered after it was deleted", func(q *sharedQueue, m *sharedMessage) {
			m.deleted = at(2)
			q.delivered(message("a", 1, 9), at(3), at(4))
		}, Resurrected},
		{"deleted while a request for it was in progress", func(q *sharedQueue, m *sharedMessage) {
			m.deleted = at(2)
			q.delivered(message("a", 1, 9), at(1), at(3))
		}, ""},
		{"never put", func(q *sharedQueue, _ *sharedMessage) {
			delete(q.messages, "m")
			q.delivered(message("a", 1, 9), at(1), at(3))
		}, Wrong},
	} {
		m := &sharedMessage{put: true}
		q := &sharedQueue{messages: map[string]*sharedMessage{"m": m}}
		tc.do(q, m)
		switch {
		case tc.want == "" && len(q.findings) > 0:
			t.Errorf("%s: found %v", tc.name, q.findings[0])
		case tc.want != "" && (len(q.findings) != 1 || q.findings[0].Kind != tc.want):
			t.Errorf("%s: found %v, want one that is %s", tc.name, q.findings, tc.want)
		}
	}
	for name, tc := range map[string]struct {
		m    sharedMessage
		want int
	}{
		"acknowledged and gone": {sharedMessage{put: true}, 1}, "not acknowledged": {sharedMessage{}, 0},
		"deleted":         {sharedMessage{put: true, deleted: at(1)}, 0},
		"perhaps deleted": {sharedMessage{put: true, maybe: true}, 0},
	} {
		q := &sharedQueue{messages: map[string]*sharedMessage{"m": &tc.m}}
		if got := len(q.missing()); got != tc.want {
			t.Errorf("%s: %d missing, want %d", name, got, tc.want)
		}
	}
}
