package dashboard

import (
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
)

// tile is a figure of a queue with what it is a minute.
type tile struct{ Name, Value, Rate string }

// draw fills in the page of a queue what happened to its messages in the page's span. poison says that the queue can
// have a poison queue.
func (l *Requests) draw(page *queuePage, name queueName, poison bool) {
	s, now := lastHourSpan, l.now()
	if page.Span == lastDaySpan.Name {
		s = lastDaySpan
	}
	page.SpanTitle = s.Title
	list := func(f figure) []int64 { return l.history.list(name, s, f, now) }
	// Read once and used for plot and tile: the sums are those of the curves.
	put, received, again, deleted := list(figPut), list(figReceived), list(figAgain), list(figDeleted)
	per := map[time.Duration]string{time.Minute: "in a minute", daySlotSpan: "in five minutes"}[s.Step]
	page.Plots = []*plot{
		newPlot("Put and deleted", per, now, s.Step, countText, values{"put", "first", put, false},
			values{"deleted", "fine", deleted, false}),
		newPlot("Received", per, now, s.Step, countText, values{"received", "first", received, false},
			values{"of them again", "third", again, false}),
		newPlot("Messages in the queue", per, now, s.Step, countText,
			values{"messages", "first", list(figDepth), true}),
		newPlot("Age of the oldest visible message", per, now, s.Step, secondsText,
			values{"oldest", "first", list(figOldest), true}),
	}
	// The rate is over the whole span, including the time before the first message.
	minutes := float64(s.Slots) * s.Step.Minutes()
	for _, t := range []struct {
		name string
		list []int64
	}{{"Put", put}, {"Received", received}, {"Received again", again}, {"Deleted", deleted}} {
		sum := sumOf(t.list)
		page.Activity = page.Activity || sum > 0
		page.Tiles = append(page.Tiles, tile{t.name, countText(sum), strconv.FormatFloat(float64(sum)/minutes, 'f', 1, 64)})
	}
	// What went into the poison queue is what was put there.
	if poison {
		page.Poison = name.queue + queuetool.PoisonSuffix
		page.Poisoned = sumOf(l.history.list(queueName{name.account, page.Poison}, s, figPut, now))
		page.Tiles = append(page.Tiles, tile{Name: "To the poison queue", Value: countText(page.Poisoned)})
	}
}

func sumOf(list []int64) (sum int64) {
	for _, n := range list {
		sum += n
	}
	return sum
}
