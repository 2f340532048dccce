package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// Errors of a publish or a read. They describe what may have happened to the stream.
var (
	// ErrStorage: the embedded server currently cannot write to its disk. A change may or may not have been made.
	ErrStorage = natsserver.ErrStorage
	// ErrNoMajority: this node of a cluster is not connected to a majority. A change may or may not have been made.
	ErrNoMajority = natsserver.ErrNoMajority
	// ErrUnavailable: NATS cannot be reached or did not answer in time. A change may or may not have been made.
	ErrUnavailable = errors.New("the queue's stream cannot be reached")
	// errNoStream: the subject has no listener, so nothing was changed: the stream was deleted, or its cluster currently has no leader for it.
	errNoStream = errors.New("no such stream")
	// errNoRecord: the subject has no record.
	errNoRecord = errors.New("no record")
)

// wrongSequence is JetStream's refusal of a publish because the subject's current record is another one. Nothing was changed.
type wrongSequence struct{ current uint64 }

func (e wrongSequence) Error() string { return fmt.Sprintf("current record is %d", e.current) }

// JetStream's headers and codes.
// https://docs.nats.io/nats-concepts/jetstream/headers
const (
	headerExpected = "Nats-Expected-Last-Subject-Sequence"
	headerSequence = "Nats-Sequence"
	headerStatus   = "Status"

	codeWrongSequence         = 10071
	codeWrongSequenceConstant = 10164 // the same, without the sequence of the current record
)

// client sends requests to JetStream and matches the answers. All requests of a store share one subscription, so that a request costs one
// publish. It is safe for concurrent use.
type client struct {
	conn    *nats.Conn
	timeout time.Duration // for one answer
	suspect func(stream string) error
	// suspectAfter is the time without an answer after which suspect is called.
	suspectAfter time.Duration
	writer       string // prefix of the writers of changes; the number of the change follows
	changes      atomic.Uint64

	inbox string // with a dot at the end; followed by the number of the waiter
	sub   *nats.Subscription

	// reuse lets a waiter wait again after its answer has come: the server then finds the subject of the answer in its cache. It is not set if a
	// request may have several answers, as in a cluster whose leader changes.
	reuse bool
	mu    sync.Mutex // guards the rest
	next  uint64
	waits map[uint64]*waiter // those that wait, and those that are free
	free  []*waiter
}

// waiter waits for one answer at a time.
type waiter struct {
	number  uint64
	reply   string         // the subject of its answers
	answer  chan *nats.Msg // of capacity 1
	waiting bool           // guarded by client.mu
}

// newClient returns a client. External means that NATS is not the embedded server alone.
func newClient(conn *nats.Conn, timeout time.Duration, external bool, suspect func(stream string) error) (*client, error) {
	c := &client{
		conn: conn, timeout: timeout, suspect: suspect, suspectAfter: defaultSuspectAfter, reuse: !external,
		writer: strconv.FormatUint(rand.Uint64(), 36) + ".", inbox: nats.NewInbox() + ".", waits: make(map[uint64]*waiter),
	}
	sub, err := conn.Subscribe(c.inbox+"*", c.receive)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	// There are few answers: each request waits for its own.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c.sub = sub
	return c, nil
}

func (c *client) close() { c.sub.Unsubscribe() }

// newWriter returns a unique text for a change.
func (c *client) newWriter() string { return c.writer + strconv.FormatUint(c.changes.Add(1), 36) }

func (c *client) receive(m *nats.Msg) {
	n, err := strconv.ParseUint(m.Subject[len(c.inbox):], 36, 64)
	if err != nil {
		return
	}
	c.mu.Lock()
	w := c.waits[n]
	due := w != nil && w.waiting
	if due {
		w.waiting = false
	}
	c.mu.Unlock()
	if due {
		w.answer <- m
	}
}

// acquire returns a waiter for one request.
func (c *client) acquire() *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	var w *waiter
	if n := len(c.free); n > 0 {
		w, c.free = c.free[n-1], c.free[:n-1]
	} else {
		c.next++
		w = &waiter{number: c.next, reply: c.inbox + strconv.FormatUint(c.next, 36), answer: make(chan *nats.Msg, 1)}
		c.waits[w.number] = w
	}
	w.waiting = true
	return w
}

// maxFree is the maximum number of waiters that are kept for later requests.
const maxFree = 256

// release gives a waiter back whose answer was received.
func (c *client) release(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reuse && len(c.free) < maxFree {
		c.free = append(c.free, w)
	} else {
		delete(c.waits, w.number)
	}
}

// forget gives up a waiter whose answer has not come. It is not used again: the answer may still come.
func (c *client) forget(w *waiter) {
	c.mu.Lock()
	delete(c.waits, w.number)
	c.mu.Unlock()
}

// pending is a request without an answer yet.
type pending struct {
	c      *client
	stream string // the stream of the request
	waiter *waiter
	err    error // sending failed
}

// send sends a request about a stream. The caller must call [pending.wait].
func (c *client) send(stream string, m *nats.Msg) pending {
	p := pending{c: c, stream: stream, waiter: c.acquire()}
	m.Reply = p.waiter.reply
	if err := c.conn.PublishMsg(m); err != nil {
		c.forget(p.waiter)
		p.err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return p
}

// timers are reused: each request needs one for a short time.
var timers = sync.Pool{New: func() any { return time.NewTimer(time.Hour) }}

// defaultSuspectAfter is the value of client.suspectAfter outside of tests.
const defaultSuspectAfter = time.Second

// wait waits for the answer. It returns [ErrStorage] shortly after the server failed to write to the stream.
func (p *pending) wait(ctx context.Context) (*nats.Msg, error) {
	if p.err != nil {
		return nil, p.err
	}
	timer := timers.Get().(*time.Timer)
	left := p.c.timeout
	slice := min(left, p.c.suspectAfter)
	timer.Reset(slice)
	defer timers.Put(timer)
	for {
		select {
		case m := <-p.waiter.answer:
			timer.Stop()
			p.c.release(p.waiter)
			if len(m.Data) == 0 && m.Header.Get(headerStatus) == "503" {
				if err := p.c.suspect(p.stream); err != nil {
					return nil, err
				}
				return nil, errNoStream
			}
			return m, nil
		case <-timer.C:
			if err := p.c.suspect(p.stream); err != nil {
				p.c.forget(p.waiter)
				return nil, err
			}
			if left -= slice; left <= 0 {
				p.c.forget(p.waiter)
				return nil, fmt.Errorf("%w: no answer within %v", ErrUnavailable, p.c.timeout)
			}
			slice = min(left, p.c.suspectAfter)
			timer.Reset(slice)
		case <-ctx.Done():
			timer.Stop()
			p.c.forget(p.waiter)
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
	}
}

// sequence waits for the acknowledgement of a publish and returns the sequence of the new record.
func (p *pending) sequence(ctx context.Context) (uint64, error) {
	m, err := p.wait(ctx)
	if err != nil {
		return 0, err
	}
	return parseAck(m.Data)
}

// parseAck parses {"stream":"s","seq":7} or {"error":{...}}. The first form, the usual one, has a fast path.
func parseAck(data []byte) (uint64, error) {
	if !bytes.Contains(data, []byte(`"error"`)) {
		if _, rest, ok := bytes.Cut(data, []byte(`"seq":`)); ok {
			var n uint64
			for _, c := range bytes.TrimLeft(rest, " ") {
				if c < '0' || c > '9' {
					break
				}
				n = n*10 + uint64(c-'0')
			}
			if n > 0 {
				return n, nil
			}
		}
	}
	var ack struct {
		Error apiError `json:"error"`
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return 0, fmt.Errorf("%w: bad acknowledgement: %w", ErrUnavailable, err)
	}
	return 0, ack.Error.err()
}

// apiError is JetStream's JSON error.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

// err converts it to an error of this package.
func (e *apiError) err() error {
	switch {
	case e.ErrCode == codeWrongSequence || e.ErrCode == codeWrongSequenceConstant:
		var current uint64
		if i := bytes.LastIndexByte([]byte(e.Description), ' '); i >= 0 {
			current, _ = strconv.ParseUint(e.Description[i+1:], 10, 64)
		}
		return wrongSequence{current}
	case e.Code == 404 && e.ErrCode == 10037: // no message found
		return errNoRecord
	case e.Code == 404:
		return errNoStream
	default:
		return fmt.Errorf("%w: JetStream: %s (%d)", ErrUnavailable, e.Description, e.ErrCode)
	}
}

// raw is a record as stored in a stream.
type raw struct {
	seq    uint64
	header nats.Header
	body   []byte
}

// stored is a message's record.
type stored struct {
	seq      uint64
	replaced uint64 // the record that it replaced, 0 for no record, unnamed if unknown
	record
	body []byte
}

// receiptNumber returns the number in the record's pop receipt.
func (s *stored) receiptNumber() Receipt {
	if s.receipt != 0 {
		return Receipt(s.receipt)
	}
	return Receipt(s.seq)
}

// last asks for the current record of a subject. On a cluster, any replica may answer, and one that lags may answer with an older record or with
// none.
func (c *client) last(stream, subject string) pending {
	return c.send(stream, nats.NewMsg("$JS.API.DIRECT.GET."+stream+"."+subject))
}

// raw waits for the answer to [client.last].
func (p *pending) raw(ctx context.Context) (raw, error) {
	m, err := p.wait(ctx)
	if err != nil {
		return raw{}, err
	}
	switch status := m.Header.Get(headerStatus); status {
	case "":
	case "404":
		return raw{}, errNoRecord
	default:
		return raw{}, fmt.Errorf("%w: JetStream: status %s", ErrUnavailable, status)
	}
	seq, err := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	if err != nil {
		return raw{}, fmt.Errorf("%w: bad sequence: %w", ErrUnavailable, err)
	}
	return raw{seq, m.Header, m.Data}, nil
}

// stored waits for the answer to [client.last] about a slot. It fails with an [unreadable] for a record that is damaged.
func (p *pending) stored(ctx context.Context, at slot) (stored, error) {
	r, err := p.raw(ctx)
	if err != nil {
		return stored{}, err
	}
	return newStored(at, r)
}

// unreadable reports a record that does not match its checksum, or has an unknown version.
type unreadable struct {
	seq uint64
	err error
}

func (e unreadable) Error() string { return fmt.Sprintf("record %d: %v", e.seq, e.err) }

func (e unreadable) Unwrap() error { return e.err }

func newStored(at slot, r raw) (stored, error) {
	parsed, err := decodeHeader(at.token(), r.header)
	if err == nil {
		err = parsed.checkBody(r.body)
	}
	if err != nil {
		return stored{}, unreadable{r.seq, err}
	}
	return stored{r.seq, replacedBy(r.header), parsed, r.body}, nil
}

// unnamed is the sequence of no record.
const unnamed uint64 = math.MaxUint64

// replacedBy returns the sequence of the record that the record with this header replaced: JetStream keeps the expected sequence in the header.
func replacedBy(header nats.Header) uint64 {
	n, err := strconv.ParseUint(header.Get(headerExpected), 10, 64)
	if err != nil {
		return unnamed
	}
	return n
}

// leaderLast asks the stream's leader for the current record of a subject. It is slower than last, and never returns an old record.
func (c *client) leaderLast(ctx context.Context, stream, subject string) (raw, error) {
	request, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return raw{}, err
	}
	p := c.send(stream, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: request})
	m, err := p.wait(ctx)
	if err != nil {
		return raw{}, err
	}
	var answer struct {
		Error   *apiError `json:"error"`
		Message *struct {
			Seq  uint64 `json:"seq"`
			Hdrs []byte `json:"hdrs"`
			Data []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return raw{}, fmt.Errorf("%w: bad answer: %w", ErrUnavailable, err)
	}
	switch {
	case answer.Error != nil:
		return raw{}, answer.Error.err()
	case answer.Message == nil:
		return raw{}, fmt.Errorf("%w: empty answer", ErrUnavailable)
	}
	var header nats.Header
	if len(answer.Message.Hdrs) > 0 {
		if header, err = nats.DecodeHeadersMsg(answer.Message.Hdrs); err != nil {
			return raw{}, fmt.Errorf("%w: bad header: %w", ErrUnavailable, err)
		}
	}
	return raw{answer.Message.Seq, header, answer.Message.Data}, nil
}

// leaderRecord is like leaderLast, for the record of a slot.
func (c *client) leaderRecord(ctx context.Context, stream, subject string, at slot) (stored, error) {
	r, err := c.leaderLast(ctx, stream, subject)
	if err != nil {
		return stored{}, err
	}
	return newStored(at, r)
}

// request sends a JSON document and decodes the JSON answer.
func (c *client) request(ctx context.Context, stream string, m *nats.Msg, document, answer any) (err error) {
	if m.Data, err = json.Marshal(document); err != nil {
		return err
	}
	p := c.send(stream, m)
	got, err := p.wait(ctx)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(got.Data, answer); err != nil {
		return fmt.Errorf("%w: bad answer: %w", ErrUnavailable, err)
	}
	return nil
}
