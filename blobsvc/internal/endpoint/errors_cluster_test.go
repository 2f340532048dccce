package endpoint

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// A client of a node without a majority is asked to try again, also when content is what the node cannot store or read.
func TestErrorsWithoutAMajority(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{store.ErrUnavailable, extent.ErrUnavailable,
		fmt.Errorf("%w; %w", extent.ErrUnavailable, extent.ErrCorrupt)} {
		if e, ok := AzureError(fmt.Errorf("writing: %w", cause)).(*wire.Error); !ok ||
			e.Status != http.StatusServiceUnavailable {
			t.Errorf("%v: got %v, want 503", cause, e)
		}
	}
}
