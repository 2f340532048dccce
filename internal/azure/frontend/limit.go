package frontend

import (
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/httpserver"
)

// Limit limits the number of requests that are served at once. Where there are several accounts, one has at most three
// quarters of them, so that its requests, however long they take, do not keep all others out. A nil *Limit is no limit.
// It is safe for concurrent use.
type Limit struct {
	all  *httpserver.Limiter
	most int // of one account

	mu sync.Mutex
	of map[string]*httpserver.Limiter // guarded by mu
}

// NewLimit returns a limit of max requests; nil if max is not positive.
func NewLimit(max int) *Limit {
	if max <= 0 {
		return nil
	}
	return &Limit{all: httpserver.NewLimiter(max), most: (3*max + 3) / 4, of: make(map[string]*httpserver.Limiter)}
}

// account returns the limit of one account; nil if it is the only one, or does not exist.
func (l *Limit) account(accounts *auth.Accounts, name string) *httpserver.Limiter {
	if l == nil || !accounts.Several() || accounts.Get(name) == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[name] == nil {
		l.of[name] = httpserver.NewLimiter(l.most)
	}
	return l.of[name]
}

// Enter reports whether one more request of an account is within the limit. leave is to be called at its end.
func (c *Common) Enter(account string) (leave func(), ok bool) {
	if c.Accounts.Several() && c.Accounts.Get(account) != nil {
		budget.Processors.Arrived(account, time.Now())
	}
	if c.Limit == nil {
		return func() {}, true
	}
	own := c.Limit.account(c.Accounts, account)
	if !own.Enter() {
		return nil, false
	}
	if !c.Limit.all.Enter() {
		own.Leave()
		return nil, false
	}
	return func() {
		c.Limit.all.Leave()
		own.Leave()
	}, true
}

// outside calls wait, and meanwhile does not count the request, which only holds a connection.
func (c *Common) outside(account string, wait func()) {
	if c.Limit == nil {
		wait()
		return
	}
	own := c.Limit.account(c.Accounts, account)
	c.Limit.all.Outside(func() { own.Outside(wait) })
}
