package messages

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
)

// putTimeout limits a request that puts messages of several callers.
const putTimeout = 30 * time.Second

// putParallel is the number of requests under way for one call, on a service that puts one message a request.
const putParallel = 16

// Putter puts messages into one queue. One request at a time is under way; what is to be put meanwhile shares the next
// one, where the service supports it. It is safe for concurrent use.
type Putter struct {
	queue    *azqueue.QueueClient
	single   atomic.Bool // the service puts one message a request
	together atomic.Bool // the service has said that it puts several
	sharing  sharing[*putting]
}

// New is a message to put.
type New struct {
	Text string
	// Delay is the time after which it becomes visible, in whole seconds.
	Delay time.Duration
	// TTL is its time to live in whole seconds; with 0 it does not expire.
	TTL time.Duration
}

// Put is a message that was put.
type Put struct{ ID, Receipt string }

// putting is a message that waits for its request.
type putting struct {
	New
	put  *Put
	call *putCall
}

// putCall is a call of Putter.Put.
type putCall struct {
	left atomic.Int64 // messages without an outcome
	done chan struct{}

	mu  sync.Mutex // guards err
	err error
}

func (c *putCall) finish(err error) {
	if err != nil {
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
	}
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
}

// NewPutter returns a Putter of a queue.
func NewPutter(q *azqueue.QueueClient) *Putter {
	p := &Putter{queue: q}
	p.sharing.next, p.sharing.send = p.next, p.request
	return p
}

// Put puts messages, in their order where the service supports several a request. After an error, and when ctx is done,
// any of them may have been put.
func (p *Putter) Put(ctx context.Context, list ...New) ([]Put, error) {
	got := make([]Put, len(list))
	if len(list) == 0 {
		return got, nil
	}
	c := &putCall{done: make(chan struct{})}
	c.left.Store(int64(len(list)))
	all := make([]*putting, len(list))
	for i, m := range list {
		all[i] = &putting{m, &got[i], c}
	}
	if p.single.Load() {
		p.each(ctx, all)
		return got, c.err
	}
	p.sharing.add(ctx, all...)
	select {
	case <-c.done:
		return got, c.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// next returns how many of the waiting messages the next request takes: of one time to live, which a request has once.
// The first request of all takes one: its answer says whether the service supports more.
func (p *Putter) next(waiting []*putting) int {
	most, size := 1, 0
	switch {
	case p.together.Load():
		most = longpoll.MaxAlso + 1
	case p.single.Load():
		most = len(waiting)
	}
	for i, m := range waiting {
		size += len(m.Text)
		if i == most || i > 0 && (size > longpoll.MaxAlsoText || m.TTL != waiting[0].TTL) {
			return i
		}
	}
	return len(waiting)
}

// request puts what next has taken.
func (p *Putter) request(ctx context.Context, list []*putting) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if p.single.Load() {
		p.each(ctx, list)
		return
	}
	var text, header strings.Builder
	for i, m := range list {
		text.WriteString(m.Text)
		if i > 1 {
			header.WriteByte(',')
		}
		if i > 0 {
			header.WriteString(strconv.Itoa(len(m.Text)) + ":" + strconv.Itoa(int(m.Delay/time.Second)))
		}
	}
	if len(list) == 1 {
		header.WriteString(longpoll.AlsoNone)
	}
	var answer *http.Response
	got, err := p.enqueue(policy.WithCaptureResponse(policy.WithHTTPHeader(ctx,
		http.Header{longpoll.AlsoHeader: {header.String()}}), &answer), New{text.String(), list[0].Delay, list[0].TTL})
	var refused *azcore.ResponseError
	switch {
	case err == nil && len(got) == len(list):
		for i, m := range list {
			*m.put = got[i]
			m.call.finish(nil)
		}
		if len(list) == 1 {
			supported := answer != nil && answer.Header.Get(longpoll.AlsoHeader) == longpoll.AlsoNone
			p.together.Store(supported)
			p.single.Store(!supported)
		}
	case len(list) > 1 && (err == nil || errors.As(err, &refused) && refused.StatusCode < http.StatusInternalServerError):
		p.each(ctx, list)                             // none was put, for what may concern one of them
		p.single.Store(p.single.Load() || err == nil) // the header was ignored
	default:
		for _, m := range list {
			m.call.finish(shared(err))
		}
	}
}

// each puts messages one by one.
func (p *Putter) each(ctx context.Context, list []*putting) {
	one := func(m *putting) {
		got, err := p.enqueue(ctx, m.New)
		if err == nil {
			*m.put = got[0]
		}
		m.call.finish(err)
	}
	if len(list) == 1 {
		one(list[0])
		return
	}
	var all sync.WaitGroup
	limit := make(chan struct{}, putParallel)
	for _, m := range list {
		limit <- struct{}{}
		all.Go(func() {
			defer func() { <-limit }()
			one(m)
		})
	}
	all.Wait()
}

// enqueue sends Put Message and returns the messages of the answer, one at least.
func (p *Putter) enqueue(ctx context.Context, m New) ([]Put, error) {
	ttl := int32(-1)
	if m.TTL > 0 {
		ttl = int32(m.TTL / time.Second)
	}
	answer, err := p.queue.EnqueueMessage(ctx, m.Text, &azqueue.EnqueueMessageOptions{TimeToLive: &ttl,
		VisibilityTimeout: to.Ptr(int32(m.Delay / time.Second))})
	if err == nil && len(answer.Messages) == 0 {
		err = errors.New("the answer has no message")
	}
	var list []Put
	for _, x := range answer.Messages {
		if x == nil || x.MessageID == nil || x.PopReceipt == nil {
			return nil, errors.New("a message of the answer has no ID or receipt")
		}
		list = append(list, Put{*x.MessageID, *x.PopReceipt})
	}
	return list, err
}

// Waiting returns the number of messages that wait for the request under way.
func (p *Putter) Waiting() int { return p.sharing.count() }
