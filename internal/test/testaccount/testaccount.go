// Package testaccount provides a storage account to tests: a Lazuli in the test's process, or the account in the
// variable LAZULI_TEST_CONNECTION_STRING, to check a test's expectations against other servers.
package testaccount

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// EnvVar is the variable with the connection string of the account to use instead.
const EnvVar = "LAZULI_TEST_CONNECTION_STRING"

// Account is a storage account for one test.
type Account struct {
	*workers.Storage
	ConnectionString string

	t      testing.TB
	suffix string
}

// Open returns an account.
func Open(t testing.TB) *Account {
	t.Helper()
	s := os.Getenv(EnvVar)
	if s == "" {
		s = lazulitest.Start(t).ConnectionString()
	}
	storage, err := workers.OpenStorage(s)
	if err != nil {
		t.Fatal(err)
	}
	return &Account{Storage: storage, ConnectionString: s, t: t, suffix: fmt.Sprintf("%x", time.Now().UnixNano())}
}

// Table creates a table with a unique name that starts with name, and deletes it when the test ends.
func (a *Account) Table(name string) string {
	a.t.Helper()
	name += a.suffix
	if _, err := a.Tables.CreateTable(context.Background(), name, nil); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _, _ = a.Tables.DeleteTable(context.Background(), name, nil) })
	return name
}

// Queue creates a queue with a unique name that starts with name, and deletes it and its poison queue when the test
// ends.
func (a *Account) Queue(name string) string {
	a.t.Helper()
	name = strings.ToLower(name) + "-" + a.suffix
	if _, err := a.Queues.CreateQueue(context.Background(), name, nil); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		_, _ = a.Queues.DeleteQueue(context.Background(), name, nil)
		_, _ = a.Queues.DeleteQueue(context.Background(), name+poison.Suffix, nil)
	})
	return name
}

// Container creates a container with a unique name that starts with name, and deletes it when the test ends.
func (a *Account) Container(name string) string {
	a.t.Helper()
	name = strings.ToLower(name) + "-" + a.suffix
	if _, err := a.Blobs.CreateContainer(context.Background(), name, nil); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _, _ = a.Blobs.DeleteContainer(context.Background(), name, nil) })
	return name
}
