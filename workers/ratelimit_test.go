package workers

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestRateMistakes(t *testing.T) {
	t.Parallel()
	for says, option := range map[string]QueueOption{
		"0 calls per 1s are not a rate":         WithRateLimit(Rate{Per: time.Second}),
		"1 calls per 0s are not a rate":         WithRateLimit(Rate{Calls: 1}),
		"1 calls per 48h0m0s are not within":    WithRateLimit(Rate{Calls: 1, Per: 48 * time.Hour}),
		"1000000 calls per 1s are not within":   WithRateLimit(Rate{Calls: 1_000_000, Per: time.Second}),
		"a burst of -1 is not within":           WithRateLimit(Rate{Calls: 1, Per: time.Second, Burst: -1}),
		"the key function is nil":               WithRateLimitPerKey[int](nil, Rate{Calls: 1, Per: time.Second}),
		"-1 calls per 1ns are not a rate":       WithRateLimitPerKey(func(s string) string { return s }, Rate{-1, 1, 0}),
		"the connection string has no table en": WithRateLimit(Rate{Calls: 1, Per: time.Second}),
	} {
		app := New(Config{Storage: &Storage{}})
		app.openQueue = newFakeAccount().open
		app.Queue("work", func(context.Context, QueueMessage) error { return nil }, option)
		if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	app := New(Config{Storage: &Storage{}})
	Batch(app, "work", func(context.Context, []*BatchMessage[int]) error { return nil },
		WithRateLimitPerKey(func(int) string { return "" }, Rate{Calls: 1, Per: time.Second}))
	if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "a batch cannot have") {
		t.Error(err)
	}
}
