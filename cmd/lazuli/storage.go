package main

import (
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers"
)

// openStorage opens an account for an interactive verb: it does not retry refused connections, for which the SDK would
// retry for nine seconds.
func openStorage(connectionString string) (*workers.Storage, error) {
	storage, err := workers.OpenStorage(connectionString,
		workers.WithClientRetry(policy.RetryOptions{ShouldRetry: worthARetry}))
	if err != nil {
		return nil, console.Usage(err)
	}
	return storage, nil
}

// worthARetry is the SDK's rule, but for a refused connection and a host that does not exist.
func worthARetry(answer *http.Response, err error) bool {
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

// explained returns an error message for users. Of the SDK's errors, which are dumps of many lines, it keeps the
// service's message. For refused connections it adds what to do.
func explained(err error) string {
	text := sdkerr.Text(err)
	if errors.As(err, new(*noProcessError)) {
		return text
	}
	if errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, new(*url.Error)) {
		text += "; is Lazuli running there? To use another account, set --connection-string or $" + connectionEnvVar
	}
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		text += "; for a certificate of lazuli cert, set SSL_CERT_FILE to its ca.pem, such as SSL_CERT_FILE=certs/ca.pem"
	}
	return text + creation(err)
}

// serviceFlag adds --connection-string to cmd and returns how to open the account. The client of a service is nil if
// the connection string has no endpoint of the service, which is then an error.
func serviceFlag[C any](cmd *cobra.Command, service string, client func(*workers.Storage) *C) func() (*C, error) {
	connection := accountFlag(cmd)
	return func() (*C, error) {
		account, err := connection()
		if err != nil {
			return nil, err
		}
		storage, err := openStorage(account)
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
