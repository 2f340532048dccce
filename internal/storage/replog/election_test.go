package replog

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// silence are servers that take messages and never answer, as a leader whose process stands still, and a clock that
// moves only while a call waits.
type silence struct {
	servers
	now    time.Time
	sent   int
	gone   bool   // in place of another term, the copy of this server has moved away
	waited func() // called after each wait; may be nil
}

func (s *silence) send(*nats.Msg) error { s.sent++; return nil }

func (s *silence) Now() time.Time { return s.now }

func (s *silence) Random() uint64 { return 1 }

// Go counts what publishes a mark or a part, which would only wait.
func (s *silence) Go(func()) { s.sent++ }

func (s *silence) Park(d time.Duration, ready func() bool) {
	if !ready() {
		s.now = s.now.Add(d)
	}
	if s.waited != nil {
		s.waited()
	}
}

// log returns a log whose term changes after some time, 0 for never.
func (s *silence) log(t *testing.T, after time.Duration) *Log {
	t.Helper()
	began := s.now
	l := &Log{servers: s, stream: "S", acks: make(chan *nats.Msg), marks: map[uint64]*passing{}, config: Config{Name: "s",
		Log: slog.New(slog.DiscardHandler), schedule: s, Term: func(string) (uint64, bool) {
			if after > 0 && s.now.Sub(began) >= after {
				return 2, !s.gone
			}
			return 1, true
		}}}
	l.life, l.end = context.WithCancel(t.Context())
	l.timeout.Store(int64(10 * time.Second))
	return l
}

// What a silent leader was sent is sent again as soon as there is another term, and some times more, since the new
// leader may not be known yet.
func TestANewTermEndsTheWaitForASilentLeader(t *testing.T) {
	t.Parallel()
	const elected = 300 * time.Millisecond
	for _, c := range []struct {
		after, least, most time.Duration
		gone               bool
	}{
		{0, tryTimeout, tryTimeout, false},
		{elected, elected, elected + 2*majorityPoll, false},
		{elected, elected, elected + 2*majorityPoll, true},
	} {
		s := &silence{now: time.Unix(1, 0), gone: c.gone}
		l := s.log(t, c.after)
		a := &Pending{log: l, deadline: s.now.Add(10 * time.Second), done: make(chan struct{})}
		began := s.now
		_, err := l.publishRecord(a)
		if took := s.now.Sub(began); !errors.Is(err, nats.ErrTimeout) || took < c.least || took > c.most {
			t.Errorf("a term after %v: an attempt took %v, %v; want %v to %v", c.after, took, err, c.least, c.most)
		}
		if _, err = l.publishRecord(a); s.sent != 2 || !errors.Is(err, nats.ErrTimeout) {
			t.Errorf("a term after %v: %d messages, %v", c.after, s.sent, err)
		}
	}
}

func TestANewTermRepeatsAMark(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after       time.Duration
		least, most int
	}{
		{0, 1, 1},
		{300 * time.Millisecond, 2, 2 + int(electionTime/majorityPoll)},
	} {
		s := &silence{now: time.Unix(1, 0)}
		l := s.log(t, c.after)
		if err := l.tryPass(); !errors.Is(err, ErrUnavailable) || s.sent < c.least || s.sent > c.most {
			t.Errorf("a term after %v: a mark was published %d times, %v; want %d to %d", c.after, s.sent, err, c.least, c.most)
		}
	}
}

// Parts of a record as well, but not as often, since they are long.
func TestANewTermRepeatsAPart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after       time.Duration
		least, most int
	}{
		{0, 1, 1},
		{300 * time.Millisecond, 2, 6},
	} {
		s := &silence{now: time.Unix(1, 0)}
		l := s.log(t, c.after)
		ctx, cancel := context.WithCancel(t.Context())
		began, first := s.now, time.Duration(0)
		s.waited = func() {
			if s.sent == 2 && first == 0 {
				first = s.now.Sub(began)
			}
			if s.now.Sub(began) > 3*electionTime {
				cancel()
			}
		}
		err := l.publishPart(ctx, []byte("part"))
		if !errors.Is(err, context.Canceled) || s.sent < c.least || s.sent > c.most || first > c.after+2*majorityPoll {
			t.Errorf("a term after %v: a part was published %d times, again after %v, %v; want %d to %d", c.after, s.sent,
				first, err, c.least, c.most)
		}
	}
}
