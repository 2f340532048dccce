package connstr

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
)

// azurite answers as Azurite 3.35.0 does to versions that it does not know, and keeps what it accepts.
type azurite struct {
	known    string
	versions []string
	body     string
}

func (a *azurite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	version := r.Header.Get("x-ms-version")
	a.versions = append(a.versions, version)
	body, _ := io.ReadAll(r.Body)
	if version > a.known {
		w.Header().Set("x-ms-error-code", "InvalidHeaderValue")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w,
			`<Error><Code>InvalidHeaderValue</Code><Message>The API version %s is not supported by Azurite.</Message></Error>`,
			version)
		return
	}
	a.body = string(body)
	if r.Method != http.MethodHead { // 200
		w.WriteHeader(http.StatusCreated)
	}
}

func azuriteClient(t *testing.T, h http.Handler) *azblob.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := Settings{BlobEndpoint: server.URL + "/account", SAS: NewSecret("sig=x")}.Blobs(Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRefusedVersionIsSentOnce(t *testing.T) {
	t.Parallel()
	a := &azurite{known: "2025-11-05"}
	c := azuriteClient(t, a)
	for range 2 {
		if _, err := c.UploadBuffer(context.Background(), "box", "b", []byte("the content"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.versions) != 3 || a.versions[0] <= a.known ||
		!slices.Equal(a.versions[1:], []string{olderVersion, olderVersion}) {
		t.Errorf("sent versions %v, want the SDK's and then %s twice", a.versions, olderVersion)
	}
	if a.body != "the content" {
		t.Errorf("the repeated request has the body %q", a.body)
	}
}

func TestOtherErrorsAreReturned(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`<Error><Code>InvalidHeaderValue</Code><Message>The value for one of the HTTP headers is not in the correct format.</Message><HeaderName>x-ms-lease-id</HeaderName></Error>`,
		`<Error><Code>InvalidInput</Code><Message>no</Message></Error>`,
	} {
		requests := 0
		c := azuriteClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests++
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, body)
		}))
		_, err := c.CreateContainer(context.Background(), "box", nil)
		if err == nil || !strings.Contains(err.Error(), "400") || requests != 1 {
			t.Errorf("got %v after %d requests, want the error after one", err, requests)
		}
	}
}

// The answer to a HEAD has no body: the request is repeated once, and the version kept if the repeated one is accepted.
func TestRefusedVersionOfHead(t *testing.T) {
	t.Parallel()
	for _, known := range []string{"2025-11-05", ""} { // Nothing is later than "": every version is refused.
		a := &azurite{known: known}
		blob := azuriteClient(t, a).ServiceClient().NewContainerClient("box").NewBlobClient("b")
		for range 2 {
			_, err := blob.GetProperties(context.Background(), nil)
			if refused := known == ""; refused != (err != nil) {
				t.Errorf("service that knows %q: %v", known, err)
			}
		}
		want := 3
		if known == "" {
			want = 4
		}
		if len(a.versions) != want || a.versions[1] != olderVersion || a.versions[want-1] != olderVersion {
			t.Errorf("service that knows %q: sent versions %v", known, a.versions)
		}
	}
}
