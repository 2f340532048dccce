package record

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

// Plus returns the nth place after o.
func (o order) Plus(n int) order { return order(fmt.Sprintf("%016X", o.number()+int64(n))) }

// AtLeast returns o, or the time if that is later.
func (o order) AtLeast(now time.Time) order {
	if o.number() < now.UnixNano() {
		return order("").Plus(int(now.UnixNano()))
	}
	return o
}

// ToEntities returns how many messages to entities follow from events.
func ToEntities(events []*Event) (n int) {
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
