package record

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// messageOf returns a message to an entity: "signal", or "call", "lock", "unlock" with the workflow whose it is.
func messageOf(text string) InboxMessage {
	kind, of, _ := strings.Cut(text, " ")
	owner, x := wrapperspb.String(of), &protocol.HistoryEvent{}
	switch kind {
	case "signal":
		x.EventType = &protocol.HistoryEvent_EntityOperationSignaled{
			EntityOperationSignaled: &protocol.EntityOperationSignaledEvent{}}
	case "call":
		x.EventType = &protocol.HistoryEvent_EntityOperationCalled{
			EntityOperationCalled: &protocol.EntityOperationCalledEvent{ParentInstanceId: owner}}
	case "lock":
		x.EventType = &protocol.HistoryEvent_EntityLockRequested{EntityLockRequested: &protocol.EntityLockRequestedEvent{
			CriticalSectionId: of, LockSet: []string{"@e@1", "@e@2"}, ParentInstanceId: owner}}
	case "unlock":
		x.EventType = &protocol.HistoryEvent_EntityUnlockSent{EntityUnlockSent: &protocol.EntityUnlockSentEvent{
			CriticalSectionId: of, ParentInstanceId: owner}}
	}
	return InboxMessage{Key: text, X: x}
}

// A step's messages, from each state of the lock. The result names what is run and handled, the notes that are written
// and deleted, and the lock at the end.
func TestEntityStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ locked, released, messages, want string }{
		{"", "", "signal", "run signal"},
		{"a", "", "signal", "locked a"},
		{"", "", "call a, call b", "run call a, run call b"},
		{"a", "", "call a, call b", "run call a, locked a"},
		{"", "", "lock a, signal, call b, call a", "run call a, handled lock a, forward a, locked a"},
		{"a", "", "lock a", "handled lock a, locked a"},
		{"b", "", "lock a", "locked b"},
		{"a", "", "signal, unlock a, call b", "run call b, handled unlock a"},
		{"a", "", "lock b, unlock a", "handled unlock a, locked "},
		// Released before the request: noted until it comes, also within one step.
		{"", "", "unlock a", "handled unlock a, note a"},
		{"b", "", "unlock a, unlock a", "handled unlock a, handled unlock a, note a, locked b"},
		{"", "", "unlock a, lock a", "handled unlock a, handled lock a"},
		{"", "a", "lock a", "handled lock a, forget a"},
		{"b", "a", "lock a, lock a", "handled lock a, handled lock a, forget a, locked b"},
		{"", "", "lock a, unlock a, lock b",
			"handled lock a, handled unlock a, handled lock b, forward a, forward b, locked b"},
	} {
		s := &EntityStep{Lock: lock{c.locked, c.locked}, Released: map[string]bool{c.released: c.released != ""},
			Most: EntityBatch}
		for _, m := range strings.Split(c.messages, ", ") {
			s.Take(messageOf(m))
		}
		var got []string
		add := func(what, text string) { got = append(got, what+" "+text) }
		for _, m := range s.Run {
			add("run", m.Key)
		}
		for _, m := range s.Consumed {
			add("handled", m.Key)
		}
		for _, l := range s.Forward {
			add("forward", l.GetEntityLockRequested().CriticalSectionId)
		}
		for _, n := range s.Note {
			add("note", n)
		}
		for _, n := range s.Forget {
			add("forget", n)
		}
		if s.Lock.Section != "" {
			add("locked", s.Lock.Section)
		}
		if text := strings.Join(got, ", "); text != strings.TrimSuffix(c.want, ", locked ") {
			t.Errorf("locked %q, released %q, %s:\n got %s\nwant %s", c.locked, c.released, c.messages, text, c.want)
		}
	}
}

// One transaction has at most 100 operations: the entity's row, and those of a step.
func TestEntityStepFitsATransaction(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"signal", "call %d", "unlock %d", "lock %d"} {
		s := &EntityStep{Lock: lock{"x", "x"}, Released: map[string]bool{}, Most: EntityBatch}
		if kind == "signal" || kind == "call %d" {
			s.Lock = lock{}
		}
		for i := 0; !s.Full() && i < 1000; i++ {
			text := strings.ReplaceAll(kind, "%d", fmt.Sprint(i))
			s.Released[fmt.Sprint(i)] = kind == "lock %d"
			s.Take(messageOf(text))
		}
		if n := 1 + len(s.Run) + len(s.Consumed) + len(s.Note) + len(s.Forget); n > BatchRows || n < EntityBatch {
			t.Errorf("%s: a step of %d rows", kind, n)
		}
	}
}
