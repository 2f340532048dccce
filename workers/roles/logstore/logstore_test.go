package logstore_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// counter is a transport that counts what goes over it.
type counter struct {
	next            http.Transport
	lists, reads    atomic.Int64
	prefixes, blobs sync.Map
}

func (c *counter) Do(r *http.Request) (*http.Response, error) {
	if q := r.URL.Query(); q.Get("comp") == "list" {
		c.lists.Add(1)
		c.prefixes.Store(q.Get("prefix"), true)
	} else if r.Method == http.MethodGet {
		c.reads.Add(1)
		c.blobs.Store(r.URL.Path, true)
	}
	return c.next.RoundTrip(r)
}

type setup struct {
	*testaccount.Account
	container string
	counter   *counter
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	s := &setup{Account: testaccount.Open(t), counter: &counter{}}
	t.Cleanup(s.counter.next.CloseIdleConnections)
	var err error
	if s.Storage, err = workers.OpenStorage(s.ConnectionString, workers.WithTransport(s.counter)); err != nil {
		t.Fatal(err)
	}
	s.container = s.Container("logs")
	return s
}

func (s *setup) writer(t *testing.T, options ...logstore.Option) *logstore.Writer {
	t.Helper()
	w, err := logstore.NewWriter(s.Storage, s.container,
		append([]logstore.Option{logstore.WithFlushEvery(time.Hour)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	return w
}

func enqueue(t *testing.T, w *logstore.Writer, records ...logstore.Record) {
	t.Helper()
	for _, r := range records {
		if err := w.Enqueue(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (s *setup) query(t *testing.T, q logstore.Query) (messages []string, stats logstore.Stats) {
	t.Helper()
	r, err := logstore.NewReader(s.Storage, s.container)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range r.Query(t.Context(), q, &stats) {
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, e.Message)
	}
	return messages, stats
}

func (s *setup) blobs(t *testing.T) map[string]map[string]*string {
	t.Helper()
	all := map[string]map[string]*string{}
	for pager := s.Blobs.NewListBlobsFlatPager(s.container,
		&azblob.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Metadata: true}}); pager.More(); {
		page, err := pager.NextPage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range page.Segment.BlobItems {
			all[*b.Name] = b.Metadata
		}
	}
	return all
}

func record(service string, at time.Time, level slog.Level, message string) logstore.Record {
	return logstore.Record{Service: service, Time: at, Level: level, Message: message}
}

func TestLayoutAndMetadata(t *testing.T) {
	s := newSetup(t)
	w := s.writer(t)
	enqueue(t, w,
		record("orders", noon.Add(59*time.Minute), slog.LevelError, "late"),
		record("orders", noon.Add(time.Minute+time.Nanosecond), slog.LevelInfo, "early"),
		record("orders", noon.Add(time.Hour), slog.LevelInfo, "next hour"),
		record("billing", noon, slog.LevelDebug, "other service"))
	enqueue(t, w, record("orders", noon, slog.LevelWarn, "again"))
	text := func(m map[string]*string) string {
		var parts []string
		for name, v := range m {
			parts = append(parts, strings.ToLower(name)+"="+*v)
		}
		slices.Sort(parts)
		return strings.Join(parts, " ")
	}
	got := map[string]string{}
	for name, m := range s.blobs(t) {
		got[name] = text(m)
	}
	want := map[string]string{
		"billing/2026/03/01/1200/000000.log": "endtime=2026-03-01T12:00:00.000000000Z logtype=debug logversion=json-1 " +
			"starttime=2026-03-01T12:00:00.000000000Z",
		"orders/2026/03/01/1200/000000.log": "endtime=2026-03-01T12:59:00.000000000Z logtype=error,info " +
			"logversion=json-1 starttime=2026-03-01T12:01:00.000000001Z",
		"orders/2026/03/01/1200/000001.log": "endtime=2026-03-01T12:00:00.000000000Z logtype=warn logversion=json-1 " +
			"starttime=2026-03-01T12:00:00.000000000Z",
		"orders/2026/03/01/1300/000000.log": "endtime=2026-03-01T13:00:00.000000000Z logtype=info logversion=json-1 " +
			"starttime=2026-03-01T13:00:00.000000000Z",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want(-) got(+):\n%s", diff)
	}
	messages, _ := s.query(t, logstore.Query{Service: "orders", From: noon, To: noon.Add(2 * time.Hour)})
	if want := []string{"again", "early", "late", "next hour"}; !slices.Equal(messages, want) {
		t.Errorf("got %q, want %q", messages, want)
	}
}

// A query lists and reads what is in its range, however much there is beside it.
func TestQueryReadsNothingBeyond(t *testing.T) {
	s := newSetup(t)
	w := s.writer(t, logstore.WithSlot(10*time.Minute))
	var all []logstore.Record
	for m := range 3 * 24 * 6 { // three days, a line each ten minutes, every tenth an error
		level := slog.LevelInfo
		if m%10 == 0 {
			level = slog.LevelError
		}
		all = append(all, record("orders", noon.Add(time.Duration(m)*10*time.Minute), level, fmt.Sprint(m)),
			record("billing", noon, level, "x"))
	}
	enqueue(t, w, all...)
	for name, c := range map[string]struct {
		from, to time.Duration // after noon
		level    slog.Leveler
		lines    int
		prefixes []string
		reads    int64
	}{
		"an hour": {time.Hour, 2 * time.Hour, nil, 6, []string{"orders/2026/03/01/13"}, 6},
		"part of an hour": {time.Hour + 20*time.Minute, time.Hour + 30*time.Minute, nil, 1, []string{"orders/2026/03/01/13"},
			1},
		"over midnight": {11*time.Hour + 30*time.Minute, 12*time.Hour + 10*time.Minute, nil, 4,
			[]string{"orders/2026/03/01/23", "orders/2026/03/02/00"}, 4},
		"a day":          {12 * time.Hour, 36 * time.Hour, nil, 144, []string{"orders/2026/03/02/"}, 144},
		"a day's errors": {12 * time.Hour, 36 * time.Hour, slog.LevelWarn, 14, []string{"orders/2026/03/02/"}, 14},
		"nothing there":  {-48 * time.Hour, -47 * time.Hour, nil, 0, []string{"orders/2026/02/27/12"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s.counter.lists.Store(0)
			s.counter.reads.Store(0)
			s.counter.prefixes.Clear()
			messages, stats := s.query(t, logstore.Query{Service: "orders", From: noon.Add(c.from), To: noon.Add(c.to),
				Level: c.level})
			var prefixes []string
			s.counter.prefixes.Range(func(p, _ any) bool { prefixes = append(prefixes, p.(string)); return true })
			slices.Sort(prefixes)
			if len(messages) != c.lines || !slices.Equal(prefixes, c.prefixes) || s.counter.reads.Load() != c.reads ||
				s.counter.lists.Load() != int64(len(c.prefixes)) {
				t.Errorf("%d lines by %d lists of %q and %d reads, want %d lines by %q and %d", len(messages),
					s.counter.lists.Load(), prefixes, s.counter.reads.Load(), c.lines, c.prefixes, c.reads)
			}
			if int64(stats.Lists) != s.counter.lists.Load() || int64(stats.Read) != c.reads || stats.Lines != int(c.reads) ||
				(stats.Bytes > 0) != (c.reads > 0) || stats.Bytes > 200*c.reads {
				t.Errorf("stats %+v", stats)
			}
		})
	}
}

// Several writers write into the same hour; no writer overwrites another one.
func TestWritersShareASlot(t *testing.T) {
	s := newSetup(t)
	var wg sync.WaitGroup
	for i := range 4 {
		w := s.writer(t, logstore.WithFlushEvery(5*time.Millisecond))
		wg.Go(func() {
			for j := range 20 {
				if err := w.Log(t.Context(), record("orders", noon.Add(time.Duration(j)), slog.LevelInfo,
					fmt.Sprint(i, "-", j))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	messages, _ := s.query(t, logstore.Query{Service: "orders", From: noon, To: noon.Add(time.Hour)})
	slices.Sort(messages)
	if n := len(slices.Compact(messages)); n != 80 {
		t.Errorf("%d lines, want 80", n)
	}
}

// A line that was written, but whose writer does not know, is written again and seen once.
func TestWrittenTwiceSeenOnce(t *testing.T) {
	s := newSetup(t)
	w := s.writer(t)
	defer fault.Activate(fault.NewPlan(
		fault.Rule{Point: "log-storage/after-write", On: 1, Do: fault.Fail(fault.ErrInjected)}))()
	for i := range 3 {
		if err := w.Enqueue(record("orders", noon, slog.LevelInfo, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(t.Context()); !errors.Is(err, fault.ErrInjected) {
		t.Fatal(err)
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(s.blobs(t)); n != 2 {
		t.Errorf("%d blobs, want 2", n)
	}
	messages, stats := s.query(t, logstore.Query{Service: "orders", From: noon, To: noon.Add(time.Hour)})
	if slices.Sort(messages); !slices.Equal(messages, []string{"0", "1", "2"}) || stats.Lines != 6 {
		t.Errorf("got %q of %+v", messages, stats)
	}
}

// By size, without waiting; and what cannot be written waits, up to the bound, and then is refused.
func TestFlushBySizeAndBound(t *testing.T) {
	s := newSetup(t)
	w := s.writer(t, logstore.WithFlushBytes(1))
	if err := w.Log(t.Context(), record("orders", noon, slog.LevelInfo, "x")); err != nil {
		t.Fatal(err)
	}
	w = s.writer(t, logstore.WithFlushBytes(200), logstore.WithMaxBuffered(500),
		logstore.WithLogger(slog.New(slog.DiscardHandler)))
	off := fault.Activate(fault.NewPlan(fault.Rule{Point: "log-storage/before-write", Do: fault.Fail(fault.ErrInjected)}))
	n, err := 0, error(nil)
	for ; err == nil && n < 100; n++ {
		err = w.Enqueue(record("orders", noon, slog.LevelInfo, "waits"))
	}
	if !errors.Is(err, logstore.ErrFull) {
		t.Fatalf("after %d records: %v", n, err)
	}
	off()
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Enqueue(record("orders", noon, slog.LevelInfo, "x")); !errors.Is(err, logstore.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	messages, _ := s.query(t, logstore.Query{Service: "orders", From: noon, To: noon.Add(time.Hour)})
	if len(messages) != n {
		t.Errorf("%d lines, want %d: all that were taken", len(messages), n)
	}
}

func TestCloseSaysWhatIsLost(t *testing.T) {
	s := newSetup(t)
	w := s.writer(t, logstore.WithLogger(slog.New(slog.DiscardHandler)))
	if err := w.Enqueue(record("orders", noon, slog.LevelInfo, "x")); err != nil {
		t.Fatal(err)
	}
	defer fault.Activate(fault.NewPlan(fault.Rule{Point: "log-storage/before-write", Do: fault.Fail(fault.ErrInjected)}))()
	if err := w.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "1 lines are lost") {
		t.Error(err)
	}
}

func TestContainerIsCreated(t *testing.T) {
	s := newSetup(t)
	s.container += "-new"
	enqueue(t, s.writer(t), record("orders", noon, slog.LevelInfo, "x"))
	if messages, _ := s.query(t, logstore.Query{Service: "orders", From: noon, To: noon.Add(1)}); len(messages) != 1 {
		t.Errorf("got %q", messages)
	}
}

func TestHandler(t *testing.T) {
	s := newSetup(t)
	w := s.writer(t)
	began := time.Now().Add(-time.Second)
	log := slog.New(logstore.NewHandler(w, "web", slog.LevelInfo))
	log.Debug("not this")
	log.With("request", 7).WithGroup("user").With("name", "Ada").Error("failed", "err", errors.New("no\nway"), "took",
		time.Second, slog.Group("geo", "x", 1))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := logstore.NewReader(s.Storage, s.container)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range r.Query(t.Context(), logstore.Query{Service: "web", From: began, To: time.Now().Add(time.Second)},
		nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		want := `{"request":7,"user":{"err":"no\nway","geo":{"x":1},"name":"Ada","took":"1s"}}`
		if string(e.Attrs) != want || e.Level != slog.LevelError || e.Message != "failed" || e.ID == "" {
			t.Errorf("got %+v, attrs %s", e, e.Attrs)
		}
	}
	if n != 1 {
		t.Errorf("%d lines", n)
	}
}

// From a queue: messages are deleted when their lines are in a blob; invalid ones move to the poison queue.
func TestQueueRole(t *testing.T) {
	s := newSetup(t)
	queue := s.Queue("logs")
	w := s.writer(t, logstore.WithFlushEvery(20*time.Millisecond))
	app := workers.New(workers.Config{Storage: s.Storage, Logger: slog.New(slog.DiscardHandler)})
	logstore.Register(app, "logs", w, workers.WithQueueName(queue))
	for _, body := range []string{
		`{"service":"orders","time":"2026-03-01T12:30:00Z","level":"ERROR","message":"one","id":"a"}`,
		`{"service":"orders","time":"2026-03-01T12:30:00Z","level":"ERROR","message":"one","id":"a"}`,
		`{"service":"orders","message":"two"}`,
		`{"service":"../x","message":"three"}`,
		`not json`,
	} {
		if _, err := s.Queues.NewQueueClient(queue).EnqueueMessage(t.Context(),
			base64.StdEncoding.EncodeToString([]byte(body)), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	check.Eventually(t, func() bool {
		stats := app.Stats()[0]
		return stats.Succeeded == 3 && stats.Poisoned == 2 && stats.InFlight == 0
	}, "three messages are handled, two are poisoned")
	if err := app.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	old, _ := s.query(t, logstore.Query{Service: "orders", From: noon, To: noon.Add(time.Hour)})
	recent, _ := s.query(t, logstore.Query{Service: "orders", From: time.Now().Add(-time.Hour),
		To: time.Now().Add(time.Hour)})
	if !slices.Equal(old, []string{"one"}) || !slices.Equal(recent, []string{"two"}) {
		t.Errorf("got %q and %q", old, recent)
	}
}

// Messages of one second, which have no time of their own, keep in one flush the order in which they were received,
// whatever the order in which their handlers run. The levels of other libraries do not poison a message.
func TestQueueRoleKeepsTheOrderOfMessages(t *testing.T) {
	s := newSetup(t)
	queue := s.Queue("logs")
	w := s.writer(t)
	app := workers.New(workers.Config{Storage: s.Storage, Logger: slog.New(slog.DiscardHandler)})
	logstore.Register(app, "logs", w, workers.WithQueueName(queue))
	var want []string
	levels := []string{`"critical"`, `"WARNING"`, `"FATAL"`, `"trace"`, `30`, `"loud"`}
	for i := range 60 {
		want = append(want, fmt.Sprintf("%02d", i))
		body := fmt.Sprintf(`{"service":"orders","message":"%02d","level":%s,"host":"h"}`, i, levels[i%len(levels)])
		if _, err := s.Queues.NewQueueClient(queue).EnqueueMessage(t.Context(),
			base64.StdEncoding.EncodeToString([]byte(body)), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	check.Eventually(t, func() bool { return w.Waiting() >= 60 }, "60 lines wait")
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := app.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	got, _ := s.query(t, logstore.Query{Service: "orders", From: time.Now().Add(-time.Hour),
		To: time.Now().Add(time.Hour)})
	if !slices.Equal(got, want) {
		t.Errorf("lines %q", got)
	}
}

func TestPointsAreDeclared(t *testing.T) {
	for _, p := range logstore.Points() {
		if !slices.Contains(fault.Points(), fault.Name(p)) {
			t.Errorf("%s is listed but not declared", p)
		}
	}
	for _, p := range fault.Points() {
		if strings.HasPrefix(string(p), "log-storage/") && !slices.Contains(logstore.Points(), string(p)) {
			t.Errorf("%s is declared but not listed", p)
		}
	}
}

func TestMistakes(t *testing.T) {
	s := newSetup(t)
	for says, o := range map[string]logstore.Option{
		"WithFlushBytes": logstore.WithFlushBytes(0), "WithFlushEvery": logstore.WithFlushEvery(0),
		"divide": logstore.WithSlot(7 * time.Minute), "WithMaxBuffered": logstore.WithMaxBuffered(1),
	} {
		if _, err := logstore.NewWriter(s.Storage, s.container, o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error saying %q", err, says)
		}
	}
	if _, err := logstore.NewWriter(&workers.Storage{}, s.container); err == nil {
		t.Error("a writer without a blob endpoint")
	}
	w := s.writer(t)
	for _, r := range []logstore.Record{{}, {Service: "a/b"},
		{Service: "x", Message: strings.Repeat("x", logstore.MaxLine)}, {Service: "x", Attrs: json.RawMessage("{")}} {
		if err := w.Enqueue(r); !errors.Is(err, logstore.ErrRecord) {
			t.Errorf("%.60v: %v", r, err)
		}
	}
	r, err := logstore.NewReader(s.Storage, "nowhere")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []logstore.Query{{}, {Service: "x"}, {Service: "x", From: noon, To: noon},
		{Service: "x/y", From: noon, To: noon.Add(1)}, {Service: "x", From: noon, To: noon.Add(1)}} {
		for _, err := range r.Query(t.Context(), q, nil) {
			if err == nil {
				t.Errorf("%+v: no error", q)
			}
		}
	}
}
