package queuepages

import (
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/chart"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/figures"
)

// tile is a figure of a queue with what it is a minute.
type tile struct{ Name, Value, Rate string }

// draw fills in the page of a queue what happened to its messages in the page's span. poison says that the queue can
// have a poison queue.
func draw(h *figures.History, now time.Time, page *queuePage, name figures.Queue, poison bool) {
	s := figures.LastHour
	if page.Span == figures.LastDay.Name {
		s = figures.LastDay
	}
	page.SpanTitle = s.Title
	list := func(f figures.Figure) []int64 { return h.List(name, s, f, now) }
	// Read once and used for plot and tile: the sums are those of the curves.
	put, received, again, deleted := list(figures.Put), list(figures.Received), list(figures.Again), list(figures.Deleted)
	per := map[time.Duration]string{time.Minute: "in a minute", figures.DaySlotSpan: "in five minutes"}[s.Step]
	page.Plots = []*chart.Plot{
		chart.New("Put and deleted", per, now, s.Step, chart.CountText, chart.Values{Name: "put", Class: "first", List: put,
			Sampled: false},
			chart.Values{Name: "deleted", Class: "fine", List: deleted, Sampled: false}),
		chart.New("Received", per, now, s.Step, chart.CountText, chart.Values{Name: "received", Class: "first",
			List: received, Sampled: false},
			chart.Values{Name: "of them again", Class: "third", List: again, Sampled: false}),
		chart.New("Messages in the queue", per, now, s.Step, chart.CountText,
			chart.Values{Name: "messages", Class: "first", List: list(figures.Depth), Sampled: true}),
		chart.New("Age of the oldest visible message", per, now, s.Step, chart.SecondsText,
			chart.Values{Name: "oldest", Class: "first", List: list(figures.Oldest), Sampled: true}),
	}
	// The rate is over the whole span, including the time before the first message.
	minutes := float64(s.Slots) * s.Step.Minutes()
	for _, t := range []struct {
		name string
		list []int64
	}{{"Put", put}, {"Received", received}, {"Received again", again}, {"Deleted", deleted}} {
		sum := sumOf(t.list)
		page.Activity = page.Activity || sum > 0
		page.Tiles = append(page.Tiles, tile{t.name, chart.CountText(sum), strconv.FormatFloat(float64(sum)/minutes, 'f', 1,
			64)})
	}
	// What went into the poison queue is what was put there.
	if poison {
		page.Poison = name.Name + queuetool.PoisonSuffix
		page.Poisoned = sumOf(h.List(figures.Queue{Account: name.Account, Name: page.Poison}, s, figures.Put, now))
		page.Tiles = append(page.Tiles, tile{Name: "To the poison queue", Value: chart.CountText(page.Poisoned)})
	}
}

func sumOf(list []int64) (sum int64) {
	for _, n := range list {
		sum += n
	}
	return sum
}
