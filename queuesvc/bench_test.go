package queuesvc_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/oneconn"
	"github.com/lazuli-storage/lazuli/internal/test/signer"
)

// BenchmarkOneConnection has messages of 1 KiB through the server of HTTP.
func BenchmarkOneConnection(b *testing.B) {
	b.Run("put", func(b *testing.B) {
		f := start(b)
		f.queue(b, "work")
		hr := check.Must(http.NewRequest("POST", f.url()+"/work/messages", strings.NewReader("<QueueMessage><MessageText>"+
			strings.Repeat("x", 1024)+"</MessageText></QueueMessage>")))(b)
		hr.Header.Set("x-ms-date", f.clock.Now().UTC().Format(http.TimeFormat))
		hr.Header.Set("x-ms-version", "2021-12-02")
		signer.Account{Name: auth.DevelopmentAccount, Key: signer.ParseKey(auth.DevelopmentKey)}.SharedKey(hr, hr.URL.Path)
		oneconn.Run(b, f.service.Handler(), 201, oneconn.Bytes(b, hr), nil)
	})
}
