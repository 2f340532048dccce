package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

// startFake serves f and returns a connection string for it.
func startFake(t *testing.T, f *fakeAzure) string {
	t.Helper()
	s := "AccountName=" + connstr.DevelopmentAccount + ";AccountKey=" + connstr.DevelopmentKey
	for svc, name := range []string{"Blob", "Queue", "Table"} {
		srv := httptest.NewServer(f.handler(Service(svc)))
		t.Cleanup(srv.Close)
		s += ";" + name + "Endpoint=" + srv.URL + "/" + connstr.DevelopmentAccount
	}
	return s
}

// quick is a configuration for a few operations per workload.
func quick(connection string) Config {
	return Config{
		Connection: connection, Duration: 4 * time.Millisecond, Slice: 2 * time.Millisecond, Connections: 3,
		Preload: Preload{Entities: 2000, Messages: 50, Blobs: 10}, Seed: 1, MaxErrors: 0,
		Command: func(args ...string) *exec.Cmd { return exec.Command(os.Args[0], args...) },
	}
}

func TestEveryWorkload(t *testing.T) {
	t.Parallel()
	for _, w := range workloads() {
		t.Run(w.Name, func(t *testing.T) {
			f := newFakeAzure()
			cfg := quick(startFake(t, f))
			if w.Bytes >= largeBlob {
				cfg.Connections = 1
			}
			cfg.Workloads = []string{w.Name}
			report, err := Run(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			res := report.Workloads[0].Results[0]
			if res.Failed != "" || len(res.Errors) != 0 || res.Ops == 0 || res.OpsPerS <= 0 || res.P50US <= 0 ||
				res.P99US < res.P50US {
				t.Errorf("result %+v", res)
			}
			if res.Target != "azurite" {
				t.Errorf("target called %q, want its Server header to name it", res.Target)
			}
			if left := f.leftovers(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if f.refused.Load() > 0 {
				t.Errorf("%d requests with a wrong signature", f.refused.Load())
			}
		})
	}
}

// The own stack, the floor and a second target, as processes.
func TestRunWithFloorAndVersus(t *testing.T) {
	t.Parallel()
	cfg := quick("")
	cfg.Versus = startFake(t, newFakeAzure())
	cfg.floor = func() (*killrig.Process, *Target, error) { return startFloor(cfg.Command("bench", "floor-server")) }
	cfg.Restart = true
	cfg.TempDir = t.TempDir()
	cfg.Workloads = []string{"entity-*", "queue-get-delete", "list-10000"}
	report, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Workloads) != 3 {
		t.Fatalf("%d workloads, want 3", len(report.Workloads))
	}
	for _, w := range report.Workloads {
		if len(w.Results) != 3 {
			t.Fatalf("%s: %d results, want target, second target and floor", w.Name, len(w.Results))
		}
		for _, res := range w.Results {
			if res.Ops == 0 || res.Failed != "" || len(res.Errors) > 0 || res.FloorShare <= 0 {
				t.Errorf("%s: %+v", w.Name, res)
			}
		}
		if w.Results[2].Target != "floor" || w.Results[2].FloorShare != 1 || w.Results[1].Ratio <= 0 ||
			w.Results[2].Ratio != 0 {
			t.Errorf("%s: floor %+v, second target %+v", w.Name, w.Results[2], w.Results[1])
		}
	}
	own := report.Targets[0]
	if own.ReadyMS <= 0 || own.RestartMS <= 0 ||
		(ReadMemory(os.Getpid()).RSS > 0 && (own.Idle.RSS == 0 || own.After.RSS == 0)) {
		t.Errorf("own stack: %+v", own)
	}
	if left, _ := os.ReadDir(cfg.TempDir); len(left) > 0 {
		t.Errorf("data folder left behind: %v", left)
	}
	checkOutputs(t, report)
}

func checkOutputs(t *testing.T, report *Report) {
	t.Helper()
	var table, js bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"of floor", "azurite is", "entity-insert", "100.0 %", "ready again after"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("table without %q:\n%s", want, table.String())
		}
	}
	if err := report.WriteJSON(&js); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(js.Bytes(), &back); err != nil || len(back.Workloads) != len(report.Workloads) {
		t.Errorf("JSON does not read back: %v", err)
	}
}

func TestServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	cfg := quick("")
	cfg.TempDir, cfg.ServeArgs = t.TempDir(), []string{"--fail", "no mood"}
	_, err := Run(context.Background(), cfg)
	if err == nil || !strings.Contains(err.Error(), "no mood") {
		t.Errorf("error %v, want what the server said", err)
	}
	if left, _ := os.ReadDir(cfg.TempDir); len(left) > 0 {
		t.Errorf("data folder left behind: %v", left)
	}
}

func TestErrorsAreCountedByStatusAndCode(t *testing.T) {
	t.Parallel()
	f := newFakeAzure()
	var mu sync.Mutex
	var n int
	f.fail = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "bench") {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		if n++; n%2 == 0 {
			return false
		}
		w.Header().Set("x-ms-error-code", "EntityAlreadyExists")
		w.WriteHeader(http.StatusConflict)
		return true
	}
	cfg := quick(startFake(t, f))
	cfg.Workloads, cfg.MaxErrors, cfg.Duration, cfg.Slice = []string{"entity-insert"}, 5, time.Minute, 30*time.Second
	report, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	res := report.Workloads[0].Results[0]
	got := res.Errors["409 EntityAlreadyExists"]
	// Each connection may have one more failure under way when the limit is passed.
	if got < 6 || got > 6+3 || res.Failed != errTooMany.Error() {
		t.Errorf("errors %v, failed %q; want 6 to 9 × 409 EntityAlreadyExists and an early end", res.Errors, res.Failed)
	}
}

func TestUnreachableTarget(t *testing.T) {
	t.Parallel()
	cfg := quick(
		"AccountName=a;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:1;QueueEndpoint=http://127.0.0.1:1;TableEndpoint=http://127.0.0.1:1")
	report, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range report.Workloads {
		if !strings.Contains(w.Results[0].Failed, "refused") {
			t.Errorf("%s: failed %q, want a refused connection", w.Name, w.Results[0].Failed)
		}
	}
}

// An interrupted run ends although an operation of many requests is under way, reports what it has and cleans up.
func TestInterruptedRun(t *testing.T) {
	t.Parallel()
	f := newFakeAzure()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.fail = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("comp") == "block" {
			cancel()
		}
		return false
	}
	cfg := quick(startFake(t, f))
	cfg.Duration, cfg.Workloads = time.Hour, []string{"blob-put-1g"}
	report, err := Run(ctx, cfg)
	if !errors.Is(err, context.Canceled) || report == nil || len(report.Workloads) != 1 {
		t.Errorf("error %v, report %v; want the report so far and context.Canceled", err, report)
	}
	if left := f.leftovers(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if n := f.served.Load(); n > 50 {
		t.Errorf("%d requests: the interruption was not noticed", n)
	}
}

// turnTaker notes whose turn it was.
type turnTaker struct {
	mu    *sync.Mutex
	turns *[]string
}

func (w turnTaker) do(c *Conn) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(*w.turns); n == 0 || (*w.turns)[n-1] != c.target.Name {
		*w.turns = append(*w.turns, c.target.Name)
	}
	return errDone
}

// Targets take turns, none works during another's slice, and each begins a round equally often.
func TestSlicesAlternate(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var turns []string
	w := &Workload{
		Name:    "turns",
		prepare: func(*env) error { return nil },
		worker:  func(*env, int) worker { return turnTaker{&mu, &turns} },
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg := quick("")
	cfg.Duration = time.Hour
	var measured, planned atomic.Int64
	cfg.Measured = func(done, total time.Duration) { measured.Store(int64(done)); planned.Store(int64(total)) }
	r := &run{cfg: &cfg}
	for _, name := range []string{"a", "b"} {
		r.envs = append(r.envs, newEnv(ctx, &Target{Name: name, Stack: &Stack{}}, &cfg, "x"))
	}
	done := make(chan []*measurement)
	go func() { done <- r.workload(ctx, w, 1, 3) }()
	for enough := false; !enough; {
		mu.Lock()
		enough = len(turns) >= 20
		mu.Unlock()
	}
	cancel()
	ms := <-done
	// Rounds are ab, ba, ab, …: neighbours of equal name have been folded.
	for i, name := range turns[:20] {
		if want := []string{"a", "b"}[i%2]; name != want {
			t.Fatalf("turns %v, want a and b alternating", turns[:20])
		}
	}
	// The second of three workloads on two targets of an hour each.
	if done, all := time.Duration(measured.Load()), time.Duration(planned.Load()); all != 6*time.Hour ||
		done <= 2*time.Hour || done > 4*time.Hour {
		t.Errorf("measured %v of %v", done, all)
	}
	if a, b := len(ms[0].slices), len(ms[1].slices); a-b > 1 || b-a > 1 {
		t.Errorf("%d slices of a, %d of b", a, b)
	}
}

func TestSelectWorkloads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		patterns []string
		want     string
	}{
		{[]string{"queue-*"}, "queue-put,queue-get-delete"},
		{[]string{"queue-put", "point-get"}, "point-get,queue-put"},
		{[]string{"table-scan"}, "table-scan"},
		{[]string{"blob-put-*"}, "blob-put-4k,blob-put-64m"},
		{nil,
			"entity-insert,point-get,query-1000,egt-100,queue-put,queue-get-delete,blob-put-4k,blob-get-4k,blob-put-64m,blob-get-64m,list-10000"},
	} {
		ws, err := selectWorkloads(tt.patterns)
		if got := strings.Join(names(ws), ","); err != nil || got != tt.want {
			t.Errorf("%v selects %s (%v), want %s", tt.patterns, got, err, tt.want)
		}
	}
	if _, err := selectWorkloads([]string{"nothing-*"}); err == nil {
		t.Error("a pattern without a match was accepted")
	}
}

func TestFloorServerRefuses(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(NewFloorServer().Handler())
	defer srv.Close()
	res, err := http.Get(srv.URL + "/floor-blob/x")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("unsigned request answered %d, want 403", res.StatusCode)
	}
	for _, body := range []string{"{", `{"status":100}`, `{"status":200,"size":-1}`} {
		req, _ := http.NewRequest(http.MethodPut, srv.URL+"/samples/x", strings.NewReader(body))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("sample %s answered %d, want 400", body, res.StatusCode)
		}
	}
}

func TestConnRedialsAfterClose(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangup" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Connection", "close")
	}))
	defer srv.Close()
	e, err := parseEndpoint(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	st := &Stack{Account: "a", Key: []byte("k"), Endpoints: [serviceCount]Endpoint{e, e, e}}
	c := newConn(&Target{Stack: st})
	defer c.Close()
	r := NewRequest(Blob, "GET", "", 200)
	for i, path := range []string{"/", "/", "/hangup", "/"} {
		r.Path = []byte(path)
		_, err := c.Do(r)
		if (err != nil) != (path == "/hangup") {
			t.Errorf("request %d to %s: %v", i, path, err)
		}
		if err != nil && !(errors.Is(err, io.EOF) || strings.Contains(err.Error(), "reset")) {
			t.Errorf("request %d: %v, want a closed connection", i, err)
		}
	}
}

func TestParseMemory(t *testing.T) {
	t.Parallel()
	got := parseMemory("Name:\tx\nVmHWM:\t    300 kB\nVmRSS:\t    200 kB\nRssAnon:\t    150 kB\nRssFile:\t     50 " +
		"kB\nThreads:\t9\n")
	if want := (Memory{RSS: 200 << 10, Anon: 150 << 10, File: 50 << 10, Peak: 300 << 10}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParseCPU(t *testing.T) {
	t.Parallel()
	const stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 7 8 20 0 9 0 1"
	if got, want := parseCPU(stat), 2*time.Second; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, bad := range []string{"", "42 (x) S 1", "42 (x) S 1 2 3 4 5 6 7 8 9 10 x y z"} {
		if got := parseCPU(bad); got != 0 {
			t.Errorf("parseCPU(%q) = %v, want 0", bad, got)
		}
	}
}
