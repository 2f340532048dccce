package main

import (
	"errors"
	"net/http"
	"net/url"
	"syscall"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers"
)

// openStorage opens an account for a verb that a person waits for: where nobody listens, the SDK's retries of nine
// seconds would be nine seconds of silence.
func openStorage(connectionString string) (*workers.Storage, error) {
	storage, err := workers.OpenStorage(connectionString, workers.WithClientRetry(policy.RetryOptions{ShouldRetry: worthARetry}))
	if err != nil {
		return nil, usageError{err}
	}
	return storage, nil
}

// worthARetry is the SDK's rule, but for a refused connection.
func worthARetry(answer *http.Response, err error) bool {
	if err != nil || answer == nil {
		return !errors.Is(err, syscall.ECONNREFUSED)
	}
	switch answer.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// explained is err for a person. The SDK's errors for answers are dumps of many lines: of these, what the service said is
// kept. Where nobody listens, it adds what can be done about it.
func explained(err error) string {
	text := sdkerr.Text(err)
	if errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, new(*url.Error)) {
		text += "; is Lazuli running there? Another account can be named with --connection-string or $" + connectionEnvVar
	}
	return text
}
