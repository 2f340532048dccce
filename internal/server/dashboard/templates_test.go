package dashboard

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame/frametest"
)

func TestTemplatesFollowTheirModels(t *testing.T) {
	t.Parallel()
	frametest.Templates(t, files, accountPage{}, accountsPage{}, clusterPage{}, controlPage{}, eventsPage{}, homePage{},
		requestPage{}, requestsPage{}, sasPage{}, searchPage{}, tracePage{})
}
