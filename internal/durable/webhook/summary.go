package webhook

import (
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/minutes"
)

// What a summary counts, at most: 50 pages of instances, and as many as a second allows.
const (
	summaryPages = 50
	summaryTime  = time.Second
)

// summary says how many instances a hub has. It is Lazuli's.
type summary struct {
	Instances int            `json:"instances"`
	More      bool           `json:"more"` // the hub has more than were counted
	Statuses  map[string]int `json:"statuses"`
	Workflows map[string]int `json:"workflows"`
	// LastHour holds the instances that ended in the last 60 minutes, those of the oldest minute first.
	LastHour struct {
		Ended  []int64 `json:"ended"`
		Failed []int64 `json:"failed"`
	} `json:"lastHour"`
}

// summarize counts the instances of the hub.
func (c *call) summarize() error {
	s := summary{Statuses: map[string]int{}, Workflows: map[string]int{}}
	now := time.Now()
	var ended minutes.Ring
	// A hub has no counts, and can have millions of instances: the summary reads pages up to two bounds, and says with
	// More that there are further ones.
	q := hub.Query{Top: maxPage}
	for page := 0; ; page++ {
		got, err := c.client.Query(c.r.Context(), q)
		if err != nil {
			return err
		}
		for _, i := range got.Instances {
			s.Instances++
			s.Statuses[i.Status]++
			s.Workflows[i.Name]++
			if i.Completed != nil && now.Sub(*i.Completed) < minutes.Kept*time.Minute && !i.Completed.After(now) {
				kind := 0
				if i.Status == "Failed" {
					kind = 1
				}
				ended.Add(*i.Completed, kind, 1)
			}
		}
		if q.Continuation = got.Continuation; q.Continuation == "" {
			break
		}
		if page+1 == summaryPages || time.Since(now) > summaryTime {
			s.More = true
			break
		}
	}
	s.LastHour.Ended, s.LastHour.Failed = ended.List(now, 0), ended.List(now, 1)
	writeJSON(c.w, http.StatusOK, s)
	return nil
}
