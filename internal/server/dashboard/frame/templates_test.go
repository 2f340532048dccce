package frame_test

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame/frametest"
)

func TestTemplatesFollowTheirModels(t *testing.T) {
	t.Parallel()
	frametest.Templates(t, frame.Files, frame.Models...)
}
