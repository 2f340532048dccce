package servertest

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/tables"
)

// counter counts the requests of a client.
type counter struct{ n atomic.Int64 }

func (c *counter) Do(r *policy.Request) (*http.Response, error) {
	c.n.Add(1)
	return r.Next()
}

// open returns a client of a Lazuli of the test's own, or of the account in LAZULI_TEST_CONNECTION_STRING, and a count
// of its requests. Tests of one account need -parallel 1, since they use the same names.
func open(t testing.TB) (*aztables.ServiceClient, *counter) {
	t.Helper()
	c := &counter{}
	service, err := aztables.NewServiceClientFromConnectionString(testaccount.Open(t).ConnectionString,
		&aztables.ClientOptions{
			ClientOptions: azcore.ClientOptions{PerRetryPolicies: []policy.Policy{c}},
		})
	if err != nil {
		t.Fatal(err)
	}
	return service, c
}

// newTable creates a table.
func newTable[T any](t testing.TB, service *aztables.ServiceClient, name string,
	options ...tables.Option) *tables.Table[T] {
	t.Helper()
	table, err := tables.New[T](service, name, options...)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = table.Drop(context.Background()) })
	return table
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// collect reads a query to its end.
func collect[T any](t testing.TB, q *tables.Query[T]) (all []T) {
	t.Helper()
	for e, err := range q.All(t.Context()) {
		ok(t, err)
		all = append(all, e)
	}
	return all
}

// says fails the test if an error does not contain a text.
func says(t testing.TB, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want an error saying %q", err, text)
	}
}
