package connstr

import (
	"bytes"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// olderVersion is the x-ms-version that is sent to a service that refused a later one. It has every operation that
// Lazuli's clients send.
const olderVersion = "2021-12-02"

// fallback is a policy of one client, by which it can use a service that does not know the version of the protocol that
// the SDK sends. An emulator knows the versions that existed when it was released: Azurite answers 400
// InvalidHeaderValue to a later one, unless it was started with --skipApiVersionCheck. The request is then repeated
// with olderVersion, and so are all later requests of the client sent. The policy belongs among those per call, before
// those that sign.
type fallback struct {
	// refused is set after the service refused a version later than olderVersion.
	refused atomic.Bool
}

// Do implements policy.Policy.
func (f *fallback) Do(r *policy.Request) (*http.Response, error) {
	sent := version(r.Raw().Header)
	if sent <= olderVersion {
		return r.Next()
	}
	if f.refused.Load() {
		setVersion(r.Raw().Header)
		return r.Next()
	}
	again := r.Clone(r.Raw().Context())
	response, err := r.Next()
	if err != nil || !refusesVersion(response, sent) {
		return response, err
	}
	if err := again.RewindBody(); err != nil {
		return nil, err
	}
	setVersion(again.Raw().Header)
	repeated, err := again.Next()
	// The answer to a HEAD does not say which header it refuses.
	if r.Raw().Method != http.MethodHead || err == nil && repeated.StatusCode != http.StatusBadRequest {
		f.refused.Store(true)
	}
	return repeated, err
}

// version returns the x-ms-version of a header. The SDK's generated code stores the name in lower case, which
// Header.Get does not find.
func version(h http.Header) string {
	for name, values := range h {
		if strings.EqualFold(name, "x-ms-version") && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

func setVersion(h http.Header) {
	for name := range h {
		if strings.EqualFold(name, "x-ms-version") {
			h[name] = []string{olderVersion}
		}
	}
}

// refusesVersion reports whether the response is the error for a version that the service does not know. Azure names
// the header (https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes), Azurite the version. The
// answer to a HEAD has no body: it may be that error.
func refusesVersion(r *http.Response, sent string) bool {
	if r.StatusCode != http.StatusBadRequest {
		return false
	}
	body, err := runtime.Payload(r)
	if err != nil || !bytes.Contains(body, []byte("InvalidHeaderValue")) &&
		r.Header.Get("x-ms-error-code") != "InvalidHeaderValue" {
		return false
	}
	return r.Request.Method == http.MethodHead ||
		bytes.Contains(body, []byte("x-ms-version")) || bytes.Contains(body, []byte("API version "+sent))
}
