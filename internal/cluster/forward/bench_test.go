//go:build unix

package forward

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// BenchmarkForward passes an insert of an entity of 1 KiB on, and BenchmarkMessages sends as many messages of NATS of
// the same size: what forwarding costs beside that is ours.
func BenchmarkForward(b *testing.B) {
	p := newPair(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answerHeader(w.Header())
		w.WriteHeader(http.StatusNoContent)
	})
	p.closeHome()
	body := strings.Repeat("x", 1<<10)
	of := http.Request{Method: http.MethodPost, RequestURI: "/devstoreaccount1/people", Host: "127.0.0.1:10002",
		RemoteAddr: "127.0.0.1:50000", ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/json"}, "Prefer": {"return-no-content"},
			"X-Ms-Date": {"Tue, 01 Dec 2026 00:00:00 GMT"}, "X-Ms-Version": {"2026-02-06"}, "Content-Length": {"1024"},
			"Authorization": {"SharedKey devstoreaccount1:" + strings.Repeat("a", 44)}}}
	measured(b, func() {
		r := of
		r.Body = io.NopCloser(strings.NewReader(body))
		if done, err := p.asked.Forward(discard{http.Header{}}, &r, "table", nil); !done || err != nil {
			b.Error(done, err)
		}
	})
}

func BenchmarkMessages(b *testing.B) {
	p := newPair(b, func(http.ResponseWriter, *http.Request) {})
	p.closeHome()
	answers := make([]byte, 400)
	home, asked := p.cluster.Conn(b, 0), p.cluster.Conn(b, 1)
	_, err := home.Subscribe("benchmark", func(m *nats.Msg) { _ = m.Respond(answers) })
	check.OK(b, err)
	question := make([]byte, 1300)
	check.Eventually(b, func() bool {
		_, err := asked.Request("benchmark", question, time.Second)
		return err == nil
	}, "the home can be reached")
	measured(b, func() {
		if _, err := asked.Request("benchmark", question, time.Minute); err != nil {
			b.Error(err)
		}
	})
}

func answerHeader(h http.Header) {
	for _, name := range []string{"X-Ms-Request-Id", "X-Ms-Version", "Date", "Server", "ETag", "DataServiceId"} {
		h[name] = []string{"W/\"datetime'2026-12-01T00%3A00%3A00.0000000Z'\""}
	}
}

// measured runs do by eight clients, and reports the processor time.
func measured(b *testing.B, do func()) {
	b.SetParallelism(4)
	b.ReportAllocs()
	before := processorTime(b)
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			do()
		}
	})
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "µs-processor/op")
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// processorTime returns what this process has computed.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	check.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
