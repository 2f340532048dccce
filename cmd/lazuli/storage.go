package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

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
	text := err.Error()
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		return strings.Replace(text, answer.Error(), summary(answer), 1)
	}
	if errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, new(*url.Error)) {
		text += "; is Lazuli running there? Another account can be named with --connection-string or $" + connectionEnvVar
	}
	return text
}

// summary is one line: the answer's status, code and message.
func summary(e *azcore.ResponseError) string {
	text := fmt.Sprintf("the service answered %d %s", e.StatusCode, e.ErrorCode)
	if e.RawResponse == nil {
		return text
	}
	body, err := runtime.Payload(e.RawResponse) // The SDK has read it and keeps it.
	if err != nil {
		return text
	}
	var inXML struct{ Message string }
	var inJSON struct {
		Error struct {
			Message struct{ Value string }
		} `json:"odata.error"`
	}
	message := ""
	if xml.Unmarshal(body, &inXML) == nil {
		message = inXML.Message
	} else if json.Unmarshal(body, &inJSON) == nil {
		message = inJSON.Error.Message.Value
	}
	// Behind the first line come the request's id and the time.
	if message, _, _ = strings.Cut(message, "\n"); message != "" {
		text += ": " + message
	}
	return text
}
