package rig

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/story"
)

// next waits until the run is to go on with a step.
func (r *Run) next(ctx context.Context, format string, args ...any) error {
	if r.Step == nil {
		return nil
	}
	return r.Step(ctx, fmt.Sprintf(format, args...))
}

// Run is a demonstration at work.
type Run struct {
	Config
	teller  *story.Teller // nil without a story
	Pattern Pattern
	queue   Queues
	Say     *Progress
	Random  *rand.Rand
	Work    []Key
	Report  Report
}
