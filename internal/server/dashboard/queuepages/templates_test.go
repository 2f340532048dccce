package queuepages

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame/frametest"
)

func TestTemplatesFollowTheirModels(t *testing.T) {
	t.Parallel()
	frametest.Templates(t, files, jobPage{}, jobsPage{}, queuePage{}, queueSchedulesPage{}, queuesPage{})
}
