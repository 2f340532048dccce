package record

import (
	"container/list"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
)

// Cache keeps the most recently used histories in memory. An entry may be stale; the ETag check at the next commit
// detects it.
type Cache struct {
	most int // events

	mu     sync.Mutex // guards the rest
	events int
	byID   map[string]*list.Element
	order  *list.List // of cached, the latest first
}

type cached struct {
	instance string
	h        *History
}

func NewCache(most int) *Cache {
	return &Cache{most: most, byID: map[string]*list.Element{}, order: list.New()}
}

// cacheBytes is the size of payload that counts like one event.
const cacheBytes = 1 << 10

func weight(h *History) int {
	n := 1
	for _, e := range h.Events {
		v, _ := event.PayloadOf(e)
		n += 1 + len(v.GetValue())/cacheBytes
	}
	return n
}

func (c *Cache) Get(instance string) *History {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byID[instance]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).h
}

func (c *Cache) Put(instance string, h *History) {
	c.Forget(instance)
	h.weight = weight(h)
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.weight > c.most {
		return
	}
	c.byID[instance] = c.order.PushFront(&cached{instance, h})
	c.events += h.weight
	for c.events > c.most {
		c.drop(c.order.Back())
	}
}

func (c *Cache) Forget(instance string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byID[instance]; e != nil {
		c.drop(e)
	}
}

func (c *Cache) drop(e *list.Element) {
	v := e.Value.(*cached)
	c.order.Remove(e)
	delete(c.byID, v.instance)
	c.events -= v.h.weight
}

func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.order.Len() > 0 {
		c.drop(c.order.Back())
	}
}
