package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/devcert"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// The status line of an error carries the first line of its message, over http, https and inside the process; in the
// Table service only where the answer is XML.
func TestReasonPhrases(t *testing.T) {
	t.Parallel()
	made, err := devcert.Make(t.TempDir(), nil, time.Now())
	check.OK(t, err)
	secure, err := devcert.ServerConfig(filepath.Join(made.Dir, devcert.ServerCert),
		filepath.Join(made.Dir, devcert.ServerKey))
	check.OK(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(check.Must(os.ReadFile(filepath.Join(made.Dir, devcert.AuthorityCert)))(t))
	for name, config := range map[string]*tls.Config{"http": nil, "https": secure} {
		s, err := server.Start(server.Config{InMemory: true, TLS: config})
		check.OK(t, err)
		defer s.Stop(t.Context())
		network := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
		defer network.CloseIdleConnections()
		for _, client := range []*http.Client{network, {Transport: s.Transport()}} {
			for _, tt := range []struct {
				service      wire.Service
				method, path string
				want         string
			}{
				{wire.Blob, "GET", "/box/missing", "404 The specified resource does not exist."},
				{wire.Blob, "HEAD", "/box/missing", "404 The specified resource does not exist."},
				{wire.Blob, "GET", "/box?comp=nonsense&sv=2021-12-02&sig=x",
					"403 Server failed to authenticate the request. Make sure the value of Authorization header is formed " +
						"correctly including the signature."},
				{wire.Queue, "GET", "/box/messages", "404 The specified resource does not exist."},
				{wire.Queue, "GET", "/box/messages?sv=2021-12-02&sig=x",
					"403 Server failed to authenticate the request. Make sure the value of Authorization header is formed " +
						"correctly including the signature."},
				{wire.Table, "GET", "/Tables", "403 Server failed to authenticate the request. Make sure the value of " +
					"Authorization header is formed correctly including the signature."},
				{wire.Table, "GET", "/?comp=list",
					"400 Value for one of the query parameters specified in the request URI is invalid."},
			} {
				r, err := http.NewRequest(tt.method, s.URL(tt.service, auth.DevelopmentAccount)+tt.path, nil)
				check.OK(t, err)
				r.Header.Set("x-ms-version", "2019-02-02")
				resp, err := client.Do(r)
				check.OK(t, err)
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.Status != tt.want {
					t.Errorf("%s, %s %s %s: %s, want %s", name, tt.service, tt.method, tt.path, resp.Status, tt.want)
				}
			}
		}
	}
}

// What the Go SDK prints of an error begins with the status line.
func TestReasonPhraseInTheGoSDK(t *testing.T) {
	t.Parallel()
	s, err := server.Start(server.Config{InMemory: true})
	check.OK(t, err)
	defer s.Stop(t.Context())
	c, err := azblob.NewClientFromConnectionString(s.ConnectionString(), nil)
	check.OK(t, err)
	_, err = c.CreateContainer(t.Context(), "box", nil)
	check.OK(t, err)
	_, err = c.DownloadStream(t.Context(), "box", "missing", nil)
	if got := fmt.Sprint(err); !strings.Contains(got, "RESPONSE 404: 404 The specified blob does not exist.") {
		t.Error(got)
	}
	_, err = tableClient(t, s).NewClient("missing").GetEntity(t.Context(), "p", "r", nil)
	if got := fmt.Sprint(err); !strings.Contains(got, "RESPONSE 404: 404 Not Found\nERROR CODE: ResourceNotFound") {
		t.Error(got)
	}
}
