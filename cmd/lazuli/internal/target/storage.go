package target

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/workers"
)

// OpenStorage opens an account for an interactive verb: it does not retry refused connections, for which the SDK would
// retry for nine seconds.
func OpenStorage(connectionString string) (*workers.Storage, error) {
	storage, err := workers.OpenStorage(connectionString,
		workers.WithClientRetry(policy.RetryOptions{ShouldRetry: WorthARetry}))
	if err != nil {
		return nil, console.Usage(err)
	}
	return storage, nil
}

// WorthARetry is the SDK's rule, but for a refused connection and a host that does not exist.
func WorthARetry(answer *http.Response, err error) bool {
	if err != nil || answer == nil {
		var lookup *net.DNSError
		return !errors.Is(err, syscall.ECONNREFUSED) && !(errors.As(err, &lookup) && lookup.IsNotFound)
	}
	switch answer.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// Opener opens what the flags of a verb name.
type Opener[C any] func(context.Context) (*C, error)

// Run returns the RunE of a verb that begins with the opening.
func (open Opener[C]) Run(do func(*cobra.Command, []string, *C) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := open(cmd.Context())
		if err != nil {
			return err
		}
		return do(cmd, args, c)
	}
}

// StorageFlag adds --connection-string to cmd and returns how to open the account.
func StorageFlag(cmd *cobra.Command) Opener[workers.Storage] {
	connection := AccountFlag(cmd)
	return func(context.Context) (*workers.Storage, error) {
		account, err := connection()
		if err != nil {
			return nil, err
		}
		return OpenStorage(account)
	}
}

// ServiceFlag adds --connection-string to cmd and returns how to open the account. The client of a service is nil if
// the connection string has no endpoint of the service, which is then an error.
func ServiceFlag[C any](cmd *cobra.Command, service string, client func(*workers.Storage) *C) Opener[C] {
	open := StorageFlag(cmd)
	return func(ctx context.Context) (*C, error) {
		storage, err := open(ctx)
		if err != nil {
			return nil, err
		}
		c := client(storage)
		if c == nil {
			return nil, console.Usagef("the connection string has no %s endpoint", service)
		}
		return c, nil
	}
}
