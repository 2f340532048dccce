package functions

import (
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// BenchmarkQueue measures messages from the queue through an empty handler to their deletion.
func BenchmarkQueue(b *testing.B) {
	connection := lazulitest.Start(b).ConnectionString()
	dir := b.TempDir()
	for name, text := range map[string]string{"host.json": hostJSON("x", ""), "Q/function.json": queueFunction} {
		write(b, dir, name, text)
	}
	h, err := Load(b.Context(), Config{Dir: dir, ConnectionString: connection,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	var done atomic.Int64
	all := make(chan bool, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
		if done.Add(1) == int64(b.N) {
			all <- true
		}
	}))
	defer server.Close()
	h.keep = func(ctx context.Context) error {
		h.process.Set(server.URL, nil)
		<-ctx.Done()
		return nil
	}
	storage, err := workers.OpenStorage(connection)
	if err != nil {
		b.Fatal(err)
	}
	queue := storage.Queues.NewQueueClient("in-queue")
	if _, err := queue.Create(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	text := base64.StdEncoding.EncodeToString([]byte(`{"id": 7, "item": "lamp"}`))
	for range b.N {
		if _, err := queue.EnqueueMessage(b.Context(), text, nil); err != nil {
			b.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	b.ResetTimer()
	go func() { ended <- h.Run(ctx, l) }()
	<-all
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
