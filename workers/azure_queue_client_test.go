package workers_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
)

func TestAzureQueueClient(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	isLazuli := os.Getenv(testaccount.EnvVar) == ""
	workers.CheckAzureQueueClient(t, a.Storage, isLazuli, func(t *testing.T, name string) string {
		name = fmt.Sprintf("client-%s-%x", name, time.Now().UnixNano())
		t.Cleanup(func() { _, _ = a.Queues.DeleteQueue(context.Background(), name, nil) })
		return name
	})
}
