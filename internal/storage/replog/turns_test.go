package replog

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

const us, first, second = 1, 2, 3 // writers

// waits returns how long this node waits for its turn. Time passes only while it waits.
func waits(ctx context.Context, l *Log) time.Duration {
	l.life, l.writer = ctx, us
	began := time.Now()
	l.AwaitTurn()
	return time.Since(began)
}

func TestTurns(t *testing.T) {
	t.Parallel()
	const moment = turnLimit / 10
	for name, tc := range map[string]struct {
		do   func(turns *turns)
		want time.Duration
	}{
		"nobody was overtaken": {func(*turns) {}, 0},
		"another node appends": {func(turns *turns) {
			turns.request(7, first)
			time.AfterFunc(moment, func() { turns.appended(8, first) })
		}, moment},
		"another node does not append": {func(turns *turns) { turns.request(7, first) }, turnLimit},
		"another node needs its turn no more": {func(turns *turns) {
			turns.request(7, first)
			time.AfterFunc(moment, func() { turns.end(first) })
		}, moment},
		"two other nodes do not append": {func(turns *turns) {
			turns.request(7, first)
			turns.request(7, second)
		}, 2 * turnLimit},
		"two other nodes append": {func(turns *turns) {
			turns.request(7, first)
			turns.request(7, second)
			time.AfterFunc(moment, func() { turns.appended(8, first) })
			time.AfterFunc(2*moment, func() { turns.appended(9, second) })
		}, 2 * moment},
		"this node was overtaken first": {func(turns *turns) {
			turns.request(7, first)
			turns.request(6, us)
		}, 0},
		"at the same record, the order of writers": {func(turns *turns) {
			turns.request(7, first)
			turns.request(7, us)
		}, 0},
		"this node was overtaken later": {func(turns *turns) {
			turns.request(7, first)
			turns.request(8, us)
			time.AfterFunc(moment, func() { turns.appended(9, first) })
		}, moment},
		"a request that came after its record": {func(turns *turns) {
			turns.appended(8, first)
			turns.request(7, first)
		}, 0},
		"a request that came twice is not an older one": {func(turns *turns) {
			turns.request(7, first)
			turns.request(9, first)
			turns.request(8, us)
			time.AfterFunc(moment, func() { turns.appended(10, first) })
		}, moment},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l Log
				tc.do(&l.turns)
				if got := waits(t.Context(), &l); got != tc.want {
					t.Errorf("waited %v, want %v", got, tc.want)
				}
			})
		})
	}
	t.Run("closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var l Log
			l.turns.request(7, first)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if got := waits(ctx, &l); got != 0 {
				t.Errorf("waited %v after Close", got)
			}
		})
	})
	t.Run("many writers", func(t *testing.T) {
		var turns turns
		for w := range uint64(10 * maxWriters) {
			turns.request(w, w)
			turns.appended(w, w+1_000_000)
		}
		if len(turns.waiting) > maxWriters || len(turns.last) > maxWriters+1 {
			t.Errorf("%d requests and %d writers are kept", len(turns.waiting), len(turns.last))
		}
	})
}
