package webhook

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// incomplete is the header of a list in the order of creation that does not cover all instances. It is Lazuli's.
const incomplete = "X-Lazuli-Incomplete"

// maxSkip bounds the instances before a page of the newest: what a summary looks through, at most.
const maxSkip = summaryPages * maxPage

// listNewest answers a query for instances with the latest ones first. The table has them in the order of their IDs, so
// that all that match are looked through, up to the bounds of a summary; the header incomplete says that there were
// more. The continuation token is the number of instances on the pages before. It is Lazuli's.
func (c *call) listNewest(q hub.Query) error {
	skip := 0
	if token := q.Continuation; token != "" {
		n, err := strconv.Atoi(token)
		if err != nil || n < 0 || n > maxSkip {
			return badRequest("x-ms-continuation-token is not one that an answer had")
		}
		skip = n
	}
	top := q.Top
	if top == 0 {
		top = 100
	}
	want := skip + top
	var newest []*record.Instance // sorted, and cut after each page: want of them and the next page are in memory
	found, begun := 0, time.Now()
	q.Top, q.Continuation, q.Payloads = maxPage, "", false
	for page := 1; ; page++ {
		got, err := c.client.Query(c.r.Context(), q)
		if err != nil {
			return err
		}
		found += len(got.Instances)
		newest = append(newest, got.Instances...)
		slices.SortFunc(newest, func(a, b *record.Instance) int {
			if n := b.Created.Compare(a.Created); n != 0 {
				return n
			}
			return strings.Compare(a.ID, b.ID)
		})
		newest = newest[:min(len(newest), want)]
		if q.Continuation = got.Continuation; q.Continuation == "" {
			break
		}
		if page == summaryPages || time.Since(begun) > summaryTime {
			c.w.Header().Set(incomplete, "true")
			break
		}
	}
	states := []state{}
	for _, i := range newest[min(skip, len(newest)):] {
		s := newState(i, false)
		s.detail(i)
		states = append(states, s)
	}
	if found > want && want <= maxSkip {
		c.w.Header().Set(continuation, strconv.Itoa(want))
	}
	writeJSON(c.w, http.StatusOK, states)
	return nil
}
