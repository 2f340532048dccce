package rig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// duplicateEvery is the distance of messages that are put twice, since a queue may deliver twice.
const duplicateEvery = 10

func (r *Run) run(ctx context.Context) (*Report, error) {
	begun := time.Now()
	r.Random = NewRandom(r.Seed)
	r.Report = Report{Seed: r.Seed, Words: r.Pattern.Words()}
	// Queue and tables exist before any worker: a worker that waits for a missing queue would look idle.
	if err := errors.Join(r.Pattern.Create(ctx), r.queue.Create(ctx)); err != nil {
		return &r.Report, err
	}
	var err error
	if r.Work, err = r.Pattern.Load(ctx, r); err != nil {
		return &r.Report, err
	}
	// A story follows one item once. Its report has no rounds, and the deaths that it does not reach are not failures.
	if r.teller != nil {
		err := r.tell(ctx)
		r.Report.Took = time.Since(begun)
		if err != nil || r.Mistake != nil {
			return &r.Report, err
		}
		return &r.Report, r.Report.Err()
	}
	// Each round gets a random share, so that partitions are split among rounds; the seed makes the order repeatable.
	r.Shuffle()
	rounds := r.Plan()
	started := time.Now()
	for i, round := range rounds {
		r.Say.Rounds(i, len(rounds), time.Since(started))
		if err := r.next(ctx, "round %d/%d: a worker begins, to be %s", i+1, len(rounds), round); err != nil {
			return &r.Report, err
		}
		row, err := r.disturbed(ctx, fmt.Sprintf("%d/%d", i+1, len(rounds)), round)
		// The row is kept before the error is looked at: a failed round is the one that the reader wants to see.
		r.Report.Rows = append(r.Report.Rows, row)
		if err != nil {
			return &r.Report, fmt.Errorf("round %d, %s: %w", i+1, round, err)
		}
	}
	// What a mistake damaged never becomes whole; conclude would report as a failure what the run is to show.
	if r.Mistake == nil {
		if err := r.conclude(ctx); err != nil {
			return &r.Report, err
		}
	}
	r.Report.Took = time.Since(begun)
	if r.Mistake != nil {
		return &r.Report, nil
	}
	return &r.Report, r.Report.Err()
}

// disturbed runs a round while Disturb kills nodes.
func (r *Run) disturbed(ctx context.Context, number string, plan roundPlan) (Row, error) {
	if r.Disturb == nil {
		return r.round(ctx, number, plan)
	}
	disturb, end := context.WithCancel(ctx)
	defer end()
	var failed error
	var ended sync.WaitGroup
	ended.Go(func() {
		kills, err := r.Disturb(disturb,
			func(format string, args ...any) { r.Say.Line("round %s: "+format, append([]any{number}, args...)...) })
		r.Report.NodesKilled += kills
		failed = err
	})
	row, err := r.round(ctx, number, plan)
	end()
	ended.Wait()
	return row, errors.Join(err, failed)
}

// ask puts messages for items, for some of them twice if that is to be.
func (r *Run) ask(ctx context.Context, row *Row, keys []Key, twice bool) error {
	var bodies [][]byte
	for i, k := range keys {
		body, err := r.Pattern.Message(k)
		if err != nil {
			return err
		}
		bodies = append(bodies, body)
		if twice && !r.Plain && r.teller == nil && r.Mistake == nil && i%duplicateEvery == 0 {
			bodies = append(bodies, body)
		}
	}
	row.Messages += len(bodies)
	r.noteAsked()
	return r.queue.put(ctx, bodies)
}

// round works on one share of the items through its deaths.
func (r *Run) round(ctx context.Context, number string, plan roundPlan) (Row, error) {
	begun := time.Now()
	row := Row{Point: plan.String(), Records: len(plan.Keys), Kills: plan.kills}
	batches := plan.batches()
	var frozen *Child
	// A round without kills runs undisturbed in runUntilDone below: its work only has to be in the queue.
	if len(plan.kills) == 0 {
		if err := r.ask(ctx, &row, batches[0], true); err != nil {
			return row, err
		}
	}
	for i, k := range plan.kills {
		what := k.Text()
		// The first share goes to the worker that freezes with leases in hand, the second to the one that takes over. So
		// both have work on the same items once the first goes on.
		if plan.frozen() {
			if err := r.ask(ctx, &row, batches[0], false); err != nil {
				return row, err
			}
			what = plan.String()
			r.Say.Update("round %s: the worker runs, to be frozen", number)
			var err error
			if frozen, err = r.runUntilFrozen(ctx); err != nil {
				return row, err
			}
			// Not before the end of the round: a stopped process ignores SIGTERM, and would outlive the program.
			defer frozen.Kill()
			if err := r.ask(ctx, &row, batches[1], true); err != nil {
				return row, err
			}
		} else if err := r.runUntilKilled(ctx, &row, number, batches[i], k); err != nil {
			return row, err
		}
		// The census between death and restart is the only time at which half-done work shows; afterwards it is repaired.
		if err := r.inspect(ctx, &row, plan.Keys, number, what); err != nil {
			return row, err
		}
	}
	if err := r.next(ctx, "round %s: another worker finishes the work", number); err != nil {
		return row, err
	}
	restarted := time.Now()
	if err := r.runUntilDone(ctx, number); err != nil {
		return row, err
	}
	row.Recovered = time.Since(restarted)
	// Now all work is done by the other worker. What the frozen one still does with its old leases must change nothing,
	// which the final census shows; a second runUntilDone repeats what it put back.
	if frozen != nil {
		r.Say.Update("round %s: the frozen worker goes on with its stale leases", number)
		if err := r.letGoOn(ctx, frozen); err != nil {
			return row, err
		}
		if err := r.runUntilDone(ctx, number); err != nil {
			return row, err
		}
	}
	end, err := r.finalCensus(ctx, plan.Keys, number)
	if err != nil {
		return row, err
	}
	row.set(end)
	row.End = end
	row.Took = time.Since(begun)
	what := "finished"
	if len(plan.kills) > 0 {
		what = "restarted, finished"
	}
	r.Say.Line("round %s: %s after %.1fs: %s", number, what, row.Recovered.Seconds(), row.verdict())
	return row, nil
}

// LateWrites is the number of times that a round is continued because of orphans.
const LateWrites = 3

// finalCensus counts the items at the end of a round. A write that a worker has given up may take effect after the last
// sweep: on a cluster, a node may execute it seconds later. What it leaves is an orphan that the next sweep removes, so
// the work goes on until it has.
func (r *Run) finalCensus(ctx context.Context, keys []Key, number string) (Census, error) {
	for try := 1; ; try++ {
		end, err := r.Pattern.Census(ctx, keys, true)
		if err != nil || len(end.Orphans) == 0 || try > LateWrites || r.Mistake != nil {
			return end, err
		}
		r.Say.Line("round %s: a late write has left an orphan; the worker goes on", number)
		if err := r.runUntilDone(ctx, number); err != nil {
			return end, err
		}
	}
}

// inspect records where a share's items are right after a worker stopped.
func (r *Run) inspect(ctx context.Context, row *Row, keys []Key, number, what string) error {
	at, err := r.Pattern.Census(ctx, keys, false)
	if err != nil {
		return err
	}
	left, err := r.queue.Waiting(ctx)
	if err != nil {
		return err
	}
	row.AtKill = append(row.AtKill, at)
	r.noteState(at, keys, left)
	row.Crashes = append(row.Crashes,
		Crash{Moved: len(at.Moved), Kept: len(at.Kept), Both: len(at.Both), Lost: len(at.Lost), Orphaned: len(at.Orphans),
			Messages: left})
	r.Say.Line("round %s: %s: %d done, %d not yet, %d half, %d orphaned, %d messages left", number, what, len(at.Moved),
		len(at.Kept), len(at.Both), len(at.Orphans), left)
	return nil
}

const (
	// countsCurrent is the time that the nodes of a cluster may take until the number of messages that they give is right,
	// and emptyAnswers how many answers in turn must be right: each comes from another node.
	countsCurrent = 30 * time.Second
	emptyAnswers  = 6
)

// conclude counts everything once more, also what no round asked for.
func (r *Run) conclude(ctx context.Context) error {
	problems, summary, err := r.Pattern.Conclude(ctx, r)
	if err != nil {
		return err
	}
	more, err := r.queue.problems(ctx)
	for began, empty := time.Now(), 0; r.Disturb != nil && err == nil && empty < emptyAnswers &&
		time.Since(began) < countsCurrent; {
		// The number of messages is approximate: a node that was started a moment ago may not have seen the last deletions.
		if empty++; len(more) > 0 {
			empty = 0
			time.Sleep(100 * time.Millisecond)
		}
		more, err = r.queue.problems(ctx)
	}
	if err != nil {
		return err
	}
	r.Report.Problems, r.Report.Summary = append(problems, more...), summary
	return nil
}
