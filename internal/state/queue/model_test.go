package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
)

// model is the reference's description of a queue, kept in a slice.
type model struct {
	messages []*modelMessage
}

type modelMessage struct {
	id       ID
	receipt  Receipt
	stale    []Receipt
	body     string
	visible  int64
	expires  int64
	dequeues uint32
	gone     bool
}

func (m *modelMessage) exists(now int64) bool {
	return !m.gone && (m.expires == Never || m.expires > now)
}

func (m *modelMessage) renew(r Receipt) {
	m.stale = append(m.stale, m.receipt)
	m.receipt = r
}

// TestModel plays random lives of messages on two front-ends of one NATS, under a clock of its own, and compares every
// answer with the model's. The messages that are visible first are handed out first.
func TestModel(t *testing.T) {
	t.Parallel()
	shared := startNATS(t, natsserver.Config{Listen: "127.0.0.1:0"})
	second := startNATS(t, natsserver.Config{URL: shared.ClientURL()})
	stores := []*Store{open(t, shared), open(t, second)}
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		name := fmt.Sprint("model-", run)
		if _, err := stores[0].Create("acct", name, nil); err != nil {
			t.Fatal(err)
		}
		defer stores[0].Delete("acct", name)
		now := epoch
		world := &model{}
		front := func(t *rapid.T) *Queue {
			return stores[rapid.IntRange(0, 1).Draw(t, "front-end")].Queue("acct", name)
		}
		pick := func(t *rapid.T) *modelMessage {
			if len(world.messages) == 0 {
				t.Skip("no messages")
			}
			return rapid.SampledFrom(world.messages).Draw(t, "message")
		}
		receipt := func(t *rapid.T, m *modelMessage) (Receipt, bool) {
			if len(m.stale) > 0 && rapid.IntRange(0, 3).Draw(t, "stale") == 0 {
				return rapid.SampledFrom(m.stale).Draw(t, "which"), false
			}
			return m.receipt, true
		}
		seconds := func(t *rapid.T, label string, least, most int) time.Duration {
			return time.Duration(rapid.IntRange(least, most).Draw(t, label)) * time.Second
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				visibility := seconds(t, "visibility", 0, 20)
				ttl := Forever
				if rapid.Bool().Draw(t, "expires") {
					ttl = seconds(t, "ttl", 1, 60)
				}
				body := fmt.Sprint(rapid.IntRange(0, 99).Draw(t, "body"))
				m, err := front(t).Put([]byte(body), visibility, ttl, now)
				if ttl != Forever && visibility >= ttl {
					if !errors.Is(err, ErrPastExpiry) {
						t.Fatalf("put: %v, want %v", err, ErrPastExpiry)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				mm := &modelMessage{id: m.ID, receipt: m.Receipt, body: body, visible: now.Add(visibility).UnixNano(),
					expires: Never}
				if ttl != Forever {
					mm.expires = now.Add(ttl).UnixNano()
				}
				world.messages = append(world.messages, mm)
			},
			"get": func(t *rapid.T) {
				visibility := seconds(t, "visibility", 1, 20)
				n := rapid.IntRange(1, 4).Draw(t, "n")
				list, err := front(t).Get(n, visibility, now)
				if err != nil {
					t.Fatal(err)
				}
				world.check(t, list, now.UnixNano(), n)
				for _, m := range list {
					mm := world.find(m.ID)
					mm.dequeues++
					mm.visible = now.Add(visibility).UnixNano()
					mm.renew(m.Receipt)
					if m.DequeueCount != mm.dequeues || m.NextVisible != mm.visible {
						t.Fatalf("got %+v, want %+v", m, *mm)
					}
				}
			},
			"peek": func(t *rapid.T) {
				n := rapid.IntRange(1, 4).Draw(t, "n")
				list, err := front(t).Peek(n, now)
				if err != nil {
					t.Fatal(err)
				}
				world.check(t, list, now.UnixNano(), n)
			},
			"update": func(t *rapid.T) {
				mm := pick(t)
				r, current := receipt(t, mm)
				visibility := seconds(t, "visibility", 0, 30)
				var body []byte
				if rapid.Bool().Draw(t, "with body") {
					body = []byte("new")
				}
				m, err := front(t).Update(mm.id, r, body, visibility, now)
				switch {
				case !mm.exists(now.UnixNano()):
					expect(t, err, ErrMessageNotFound)
				case !current:
					expect(t, err, ErrReceiptMismatch)
				case mm.expires != Never && now.Add(visibility).UnixNano() > mm.expires:
					expect(t, err, ErrPastExpiry)
				default:
					expect(t, err, nil)
					mm.renew(m.Receipt)
					mm.visible = now.Add(visibility).UnixNano()
					if body != nil {
						mm.body = string(body)
					}
				}
			},
			"delete": func(t *rapid.T) {
				mm := pick(t)
				r, current := receipt(t, mm)
				err := front(t).Delete(mm.id, r, now)
				switch {
				case !mm.exists(now.UnixNano()):
					expect(t, err, ErrMessageNotFound)
				case !current:
					expect(t, err, ErrReceiptMismatch)
				default:
					expect(t, err, nil)
					mm.gone = true
				}
			},
			"clear": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "seldom") > 0 {
					t.Skip("not this time")
				}
				expect(t, front(t).Clear(), nil)
				for _, m := range world.messages {
					m.gone = true
				}
			},
			"wait": func(t *rapid.T) { now = now.Add(seconds(t, "time", 1, 15)) },
		})
		// In the end, all that is visible is handed out by either front-end.
		now = now.Add(40 * time.Second)
		q := front(t)
		list, err := q.Peek(32, now)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, m := range world.messages {
			if m.exists(now.UnixNano()) {
				want++
			}
		}
		if len(list) != min(want, 32) || count(t, q, now) != want {
			t.Fatalf("sees %d messages and counts %d, want %d", len(list), count(t, q, now), want)
		}
	})
}

// patience is the time that a test waits for something that must happen: much longer than it takes, for machines that
// are busy.
const patience = 3 * time.Minute

// eventually waits for what another front-end has done to be seen: it is followed with a delay.
func eventually(t interface{ Fatalf(string, ...any) }, check func() error) {
	deadline, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.Done():
			t.Fatalf("%v", err)
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func expect(t *rapid.T, got, want error) {
	if (got == nil) != (want == nil) || !errors.Is(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

func (w *model) find(id ID) *modelMessage {
	for _, m := range w.messages {
		if m.id == id {
			return m
		}
	}
	return nil
}

// check fails where a message was handed out that must not be.
func (w *model) check(t *rapid.T, list []Message, now int64, n int) {
	var visible []int64
	for _, m := range w.messages {
		if m.exists(now) && m.visible <= now {
			visible = append(visible, m.visible)
		}
	}
	slices.Sort(visible)
	if len(list) != min(n, len(visible)) {
		t.Fatalf("%d messages, asked for %d of %d", len(list), n, len(visible))
	}
	seen := make(map[ID]bool)
	for _, m := range list {
		mm := w.find(m.ID)
		switch {
		case mm == nil:
			t.Fatalf("a message that was never put: %+v", m)
		case !mm.exists(now) || mm.visible > now || seen[m.ID]:
			t.Fatalf("handed out at %d: %+v", now, *mm)
		case string(m.Body) != mm.body:
			t.Fatalf("body %q, want %q", m.Body, mm.body)
		}
		seen[m.ID] = true
		if mm.visible != visible[len(seen)-1] {
			t.Fatalf("message %d has been visible since %d, and another one since %d", len(seen), mm.visible,
				visible[len(seen)-1])
		}
	}
}
