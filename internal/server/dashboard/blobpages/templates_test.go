package blobpages

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame/frametest"
)

func TestTemplatesFollowTheirModels(t *testing.T) {
	t.Parallel()
	frametest.Templates(t, files, blobPage{}, containerPage{}, containersPage{}, lakePage{})
}
