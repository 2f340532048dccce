package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/story"
	"github.com/lazuli-storage/lazuli/workers"
)

// Demonstrate runs a demonstration. The report is complete as far as the run came, also when an error is returned.
func Demonstrate(ctx context.Context, c Config, open func(*workers.Storage, string) (Pattern, error)) (_ *Report,
	err error) {
	var options []workers.StorageOption
	if c.Disturb != nil { // a leader may be missing for some fifteen seconds
		options = append(options, workers.WithClientRetry(
			policy.RetryOptions{MaxRetries: 20, RetryDelay: 200 * time.Millisecond, MaxRetryDelay: 3 * time.Second,
				StatusCodes: []int{http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
					http.StatusServiceUnavailable, http.StatusGatewayTimeout}}))
	}
	storage, err := workers.OpenStorage(c.ConnectionString, options...)
	if err != nil {
		return nil, err
	}
	// names differ from run to run, and meet nothing of another's
	id := fmt.Sprintf("%x", time.Now().UnixNano())
	p, err := open(storage, id)
	if err != nil {
		return nil, err
	}
	all := PointsOf(p)
	if c.Points == nil {
		c.Points = all
	}
	for _, name := range c.Points {
		if !slices.Contains(all, name) && c.Mistake == nil { // a mistake may have a step of its own
			return nil, fmt.Errorf("the role has no fault point %q; there are %s", name, strings.Join(all, ", "))
		}
	}
	if c.Lease == 0 {
		c.Lease = time.Second
	}
	if c.Patience == 0 {
		c.Patience = time.Minute
	}
	if c.StuckAfter == 0 {
		c.StuckAfter = c.Patience
	}
	var teller *story.Teller
	if c.Story > 0 {
		if teller, err = c.beginStory(id, all); err != nil {
			return nil, err
		}
		defer teller.Close()
	}
	r := &Run{Config: c, teller: teller, Pattern: p, queue: Queues{storage.Queues, p.Settings().Queue},
		Say: NewProgress(c.Progress, c.Show)}
	defer func() {
		if c.Keep {
			err = errors.Join(err, c.ReportKept(ctx, storage, id))
			return
		}
		// Also after an interrupt: what was created is removed.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = errors.Join(err, p.Remove(clean), r.queue.Remove(clean))
	}()
	return r.run(ctx)
}

// beginStory begins the story of a run, and chooses the step of its kill.
func (c *Config) beginStory(id string, points []string) (*story.Teller, error) {
	title := "with the pattern"
	if c.Mistake != nil {
		title = "without the pattern, " + c.Mistake.Name
	}
	switch {
	case c.Points == nil || len(c.Points) > 1 && slices.Equal(c.Points, points):
		c.Points = []string{storyPoint(points)}
	case len(c.Points) > 1 || slices.Contains(c.Points, Frozen):
		return nil, errors.New("a story has one kill, at one step")
	}
	return story.NewTeller(c.ConnectionString, id, title)
}

// ReportKept passes on the names of what a run with an ID has made.
func (c *Config) ReportKept(ctx context.Context, storage *workers.Storage, id string) error {
	if c.Kept == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	names, err := namesWith(ctx, storage, id)
	if err == nil {
		c.Kept(names)
	}
	return err
}
