package functionpages

import (
	"slices"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
)

// A process whose heartbeats stay away is gone: its calls are not in flight.
func TestProcessThatDied(t *testing.T) {
	t.Parallel()
	now := time.Now()
	functions := []hostrow.Function{{Name: "ship", InFlight: 3, Succeeded: 5}}
	apps := appsOf(hostrow.List{Now: now, Processes: []hostrow.Process{
		{App: "shop", ID: "live", Every: hostrow.Every, Beat: now.Add(-20 * time.Second), Functions: functions},
		{App: "shop", ID: "gone", Every: hostrow.Every, Beat: now.Add(-40 * time.Second), Functions: functions},
		{App: "shop", ID: "ends", Every: hostrow.Every, Beat: now, Functions: functions, Stopping: true}}})
	if len(apps) != 1 || apps[0].Processes[1].State != "gone" || apps[0].Functions[0].InFlight != 6 ||
		apps[0].Functions[0].Succeeded != 15 ||
		!slices.Equal(apps[0].Functions[0].States, []string{"1 runs", "1 stopping", "1 gone"}) {
		t.Errorf("%+v", apps)
	}
}
