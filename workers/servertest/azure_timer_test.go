package servertest

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
)

// Two instances: the timer runs on one, and on the other when that one stops.
func TestTimerOnTwoInstances(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	host := fmt.Sprint("test", time.Now().UnixNano())
	var runs [2]atomic.Int64
	var apps [2]*workers.App
	for i := range apps {
		apps[i] = workers.New(workers.Config{ConnectionString: a.ConnectionString, HostID: host,
			Logger: slog.New(slog.DiscardHandler)})
		apps[i].Timer("tick", func(context.Context, workers.TimerInfo) error { runs[i].Add(1); return nil },
			workers.WithSchedule("* * * * * *"), workers.WithMonitor(true))
	}
	start(t, apps[0])
	eventually(t, "the first instance ran the timer", func() bool { return runs[0].Load() > 0 })
	start(t, apps[1])
	before := runs[0].Load()
	eventually(t, "the timer ran twice more", func() bool { return runs[0].Load() >= before+2 })
	if runs[1].Load() != 0 {
		t.Error("both instances ran the timer")
	}
	if err := apps[0].Stop(context.Background()); err != nil {
		t.Error(err)
	}
	eventually(t, "the second instance took over", func() bool { return runs[1].Load() > 0 })
}
