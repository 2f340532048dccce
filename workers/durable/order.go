package durable

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
)

// order is the place of a message in an entity's inbox: a time in nanoseconds since 1970, in 16 hexadecimal digits.
// Messages of one sender have increasing ones whatever the clocks of the processes say that it has run in: each begins
// after the last one of the sender, which its record names.
type order string

func (o order) number() int64 {
	n, err := strconv.ParseInt(string(o), 16, 64)
	if err != nil {
		return 0 // none
	}
	return n
}

// plus returns the nth place after o.
func (o order) plus(n int) order { return order(fmt.Sprintf("%016X", o.number()+int64(n))) }

// atLeast returns o, or the time if that is later.
func (o order) atLeast(now time.Time) order {
	if o.number() < now.UnixNano() {
		return order("").plus(int(now.UnixNano()))
	}
	return o
}

// toEntities returns how many messages to entities follow from events.
func toEntities(events []*Event) (n int) {
	for _, e := range events {
		if sent := event.CarriedBy(e); sent != nil {
			e = sent
		}
		if x := event.ExtraOf(e); x != nil {
			if entity, _ := toEntity(x, "", ""); entity != "" {
				n++
			}
		}
	}
	return n
}

// advance moves the sentinel's order on by the messages to entities that follow from the plan's events.
func (c *plan) advance(now time.Time) {
	events := make([]*Event, len(c.rows))
	for i, r := range c.rows {
		events[i] = r.event
	}
	if n := toEntities(events); n > 0 {
		c.next.Order = c.next.Order.atLeast(now).plus(n)
	}
}
