package servertest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// A process is killed at each step of an occurrence, and another one goes on: each second has one message.
func TestScheduleProcessIsKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, point := range fault.PointsOf("schedules") {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			clock := lazulitest.NewClock()
			account := lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t)
			check.OK(t, account.CreateSchedule(t.Context(), workers.Schedule{Name: "s", Expression: "* * * * * *",
				Queue: "seconds", CatchUp: workers.CatchUpAll, Encoding: workers.Base64}))
			victim := startScheduler(t, account, point+"=kill@2")
			_ = victim.Wait() // It kills itself.
			if victim.ProcessState.Success() || victim.ProcessState.Exited() {
				t.Fatalf("the process was not killed: %v", victim.ProcessState)
			}
			clock.Advance(time.Minute) // The lease of its lock ends.
			heir := startScheduler(t, account, "")
			queue := account.Queues.NewQueueClient("seconds")
			var seconds []time.Time
			check.Eventually(t, func() bool {
				got, err := queue.PeekMessages(t.Context(), &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(32))})
				if err != nil || len(got.Messages) < 5 {
					return false
				}
				seconds = nil
				for _, m := range got.Messages {
					var body struct{ ScheduledTime time.Time }
					text, err := base64.StdEncoding.DecodeString(*m.MessageText)
					check.OK(t, err)
					check.OK(t, json.Unmarshal(text, &body))
					seconds = append(seconds, body.ScheduledTime)
				}
				return true
			}, "five messages")
			check.OK(t, heir.Process.Kill())
			for i := 1; i < len(seconds); i++ {
				if d := seconds[i].Sub(seconds[i-1]); d != time.Second {
					t.Errorf("messages for %v: %v and %v are %v apart", seconds, seconds[i-1], seconds[i], d)
				}
			}
		})
	}
}

// startScheduler starts a process with the role of schedules and a plan of faults.
func startScheduler(t *testing.T, a *lazulitest.Account, plan string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprintf("LAZULI_TEST_WORKER="+schedulesChild+" %s true", a.ConnectionString()),
		fault.EnvVar+"="+plan)
	check.OK(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // It was killed.
	})
	return c
}
