// Package jobrow keeps the state of jobs: queue messages with a row in the table lazulijobs of the same account. See
// docs/design/workers.md, "Jobs".
//
// All rows of a queue's jobs are in one partition, so that one transaction changes them together:
//
//	PartitionKey  the queue
//	RowKey        j-ID                 the job
//	              i-STATE-TIME-ID      its copy without the long parts, to list by state, the latest first
//	              k-HASH               the job that holds a unique key
//	              x-SECONDS-ROWKEY     when that row expires
package jobrow

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// Table is the table's name.
const Table = "lazulijobs"

// State is the state of a job.
//
//	          start             done
//	waiting ────────▶ running ────────────────▶ done
//	   ▲  │ cancel     │  ▲ │  poison
//	   │  ▼            │  │ └────────────────▶ poisoned ── start, put back by hand ──▶ running
//	   │ cancelled     │  │ start
//	   │  ▲ cancel     ▼  │
//	   │  └────────── retrying
//	   └─ give back ── running ── cancel ──▶ cancelling ── the handler returned, or a new start ──▶ cancelled, done
//
// A running job can be started again: the lease of the run before has ended. That run cannot change the row any more.
type State string

// The states. Dropped is no state of a job: it stands for a message whose job was never inserted, so that the insert
// fails if it comes late.
const (
	Waiting    State = "waiting"
	Running    State = "running"
	Cancelling State = "cancelling"
	Retrying   State = "retrying"
	Done       State = "done"
	Poisoned   State = "poisoned"
	Cancelled  State = "cancelled"
	Dropped    State = "dropped"
)

// States are those that a job can have.
var States = []State{Running, Cancelling, Retrying, Waiting, Poisoned, Cancelled, Done}

// Ended reports whether a job in this state is not run any more.
func (s State) Ended() bool { return s == Done || s == Poisoned || s == Cancelled || s == Dropped }

// Failure is the error of an attempt.
type Failure struct {
	Attempt int64
	At      time.Time
	Text    string
}

// Limits of what is kept of a job.
const (
	maxFailures = 10
	maxText     = 1 << 10
	MaxKey      = 1 << 10
	MaxResult   = 60 << 10
	MaxProgress = 4 << 10
)

// The shortest times for which the row of a job that ended is kept: a poisoned message can be put back, and a job that
// waited when it was cancelled is to be seen. A dropped one must outlast a sender that hangs.
const (
	keepPoisoned  = 7 * 24 * time.Hour
	keepCancelled = time.Hour
	keepDropped   = time.Hour
)

// Row is the row of a job.
type Row struct {
	Queue  string `table:"PartitionKey"`
	RowKey string
	ETag   azcore.ETag

	// ID is the job's without its queue. Token is in its message: no other message can pass for it.
	ID, Token string
	State     State
	// Key is unique while the job waits or runs, and until KeyUntil.
	Key      string
	KeyUntil time.Time
	// KeepSeconds is for how long the row is kept once the job is done.
	KeepSeconds int64
	// Function and Host are those of the last attempt, Run its invocation.
	Function, Host, Run string
	// Attempt counts the attempts so far. One that was given back, or snoozed, does not count.
	Attempt int64
	// Changed is when the state began, RunAt when a job that waits or retries is due.
	Created, Started, Changed, RunAt, Expires time.Time
	Failures                                  []Failure `table:",json"`
	Result, Progress                          []byte
	// Index and Expiry are the RowKeys of the other rows; Expiry is empty until the job has ended.
	Index, Expiry string
}

// New returns the row of a job that is to be inserted.
func New(queue, key string, now time.Time) Row {
	r := Row{Queue: queue, ID: strings.ToLower(rand.Text()), Token: rand.Text(), Key: key, Created: now}
	r.RowKey = "j-" + r.ID
	r.enter(Waiting, now)
	return r
}

// FullID is the job's ID.
func (r Row) FullID() string { return r.Queue + "." + r.ID }

// SplitID returns the queue of a job and the rest of its ID.
func SplitID(id string) (queue, rest string, ok bool) {
	queue, rest, ok = strings.Cut(id, ".")
	lower := func(c rune) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	ok = ok && queue != "" && len(queue) <= 63 && len(rest) >= 20 && len(rest) <= 40 &&
		strings.IndexFunc(rest, func(c rune) bool { return !lower(c) }) < 0 &&
		strings.IndexFunc(queue, func(c rune) bool { return !lower(c) && c != '-' }) < 0
	return queue, rest, ok
}

// enter is the only place that sets the state.
func (r *Row) enter(s State, now time.Time) {
	r.State, r.Changed = s, now
	r.Index = fmt.Sprintf("i-%s-%019d-%s", s, math.MaxInt64-now.UnixNano(), r.ID)
	r.Expires, r.Expiry = time.Time{}, ""
	if s != Waiting && s != Retrying {
		r.RunAt = time.Time{}
	}
	if !s.Ended() {
		return
	}
	keep := time.Duration(r.KeepSeconds) * time.Second
	switch s {
	case Poisoned:
		keep = max(keep, keepPoisoned)
	case Cancelled:
		keep = max(keep, keepCancelled)
	case Dropped:
		keep = keepDropped
	}
	if keep > 0 {
		r.Expires = now.Add(keep)
		r.Expiry = expiryKey(r.Expires, r.RowKey)
	}
}

// summary is the row to list.
func (r Row) summary() Row {
	s := r
	s.RowKey, s.ETag, s.Token, s.Result, s.Progress = r.Index, "", "", nil, nil
	if n := len(r.Failures); n > 0 {
		s.Failures = r.Failures[n-1:]
	}
	return s
}

func expiryKey(at time.Time, rowKey string) string {
	return fmt.Sprintf("x-%012d-%s", at.Unix(), rowKey)
}

func keyKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "k-" + hex.EncodeToString(sum[:])
}

var (
	// ErrTaken means that another attempt has begun: this one cannot change the row.
	ErrTaken = errors.New("another attempt of the job has begun")
	// ErrEnded means that the job has ended before.
	ErrEnded = errors.New("the job has ended")
)

// Attempt is the call of a handler that is to begin.
type Attempt struct{ Function, Host, Run string }

// Start begins an attempt. It returns false if the message is to be dropped: the job has ended, or ends by this since
// it was to be cancelled. again is true for a message that was put back from the poison queue.
func (r Row) Start(a Attempt, again bool, now time.Time) (_ Row, run bool) {
	switch {
	case r.State == Cancelling:
		r.enter(Cancelled, now)
		return r, false
	case r.State.Ended() && (r.State != Poisoned || !again):
		return r, false
	}
	r.enter(Running, now)
	r.Function, r.Host, r.Run, r.Started, r.Progress = a.Function, a.Host, a.Run, now, nil
	r.Attempt++
	return r, true
}

// Outcome is how an attempt ended.
type Outcome struct {
	// State is the one that follows: Done, Retrying, Waiting, Poisoned or Cancelled.
	State State
	// At is when a job that waits or retries is due.
	At     time.Time
	Err    string
	Result []byte
}

// Finish ends the attempt of a run. If it was to be cancelled, it is, unless it is done.
func (r Row) Finish(run string, o Outcome, now time.Time) (Row, error) {
	if r.Run != run || r.State != Running && r.State != Cancelling {
		return r, ErrTaken
	}
	state := o.State
	if r.State == Cancelling && state != Done {
		state = Cancelled
	}
	if o.Err != "" {
		text := o.Err
		if len(text) > maxText {
			text = strings.ToValidUTF8(text[:maxText], "") + "…"
		}
		r.Failures = append(slices.Clone(r.Failures), Failure{r.Attempt, now, text})
		if n := len(r.Failures); n > maxFailures {
			r.Failures = r.Failures[n-maxFailures:]
		}
	}
	if state == Waiting { // given back or snoozed
		r.Attempt--
	}
	if state == Done {
		r.Result = o.Result
	}
	r.enter(state, now)
	if state == Waiting || state == Retrying {
		r.RunAt = o.At
	}
	return r, nil
}

// Cancel cancels a job that waits, or asks that one which runs is cancelled.
func (r Row) Cancel(now time.Time) (Row, error) {
	switch {
	case r.State.Ended():
		return r, ErrEnded
	case r.State == Cancelling:
		return r, nil
	case r.State == Running:
		r.enter(Cancelling, now)
		return r, nil
	}
	r.enter(Cancelled, now)
	return r, nil
}
