package faultrule

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// request is a request for an operation at a path below devstoreaccount1.
func request(t *testing.T, svc wire.Service, operation, path string, headers ...string) *wire.Request {
	t.Helper()
	hr := httptest.NewRequest("PUT", "http://127.0.0.1/devstoreaccount1/"+path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		hr.Header.Set(headers[i], headers[i+1])
	}
	r, err := wire.Parse(svc, hr, httptest.NewRecorder(), time.Unix(0, 0), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Operation = operation
	return r
}

func newSet() *Set {
	return NewSet([]string{"PutBlob", "GetBlob", "PutMessage", "InsertEntity"}, time.Now)
}

func TestRuleChoosesRequests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		rule  Rule
		svc   wire.Service
		op    string
		path  string
		agent string
		want  bool
	}{
		{"any request", Rule{}, wire.Queue, "PutMessage", "q/messages", "", true},
		{"the service", Rule{Service: "blob"}, wire.Blob, "PutBlob", "c/b", "", true},
		{"another service", Rule{Service: "blob"}, wire.Queue, "PutMessage", "q/messages", "", false},
		{"the operation with spaces", Rule{Operation: "put blob"}, wire.Blob, "PutBlob", "c/b", "", true},
		{"another operation", Rule{Operation: "Put Blob"}, wire.Blob, "GetBlob", "c/b", "", false},
		{"operations by a star", Rule{Operation: "Put*"}, wire.Queue, "PutMessage", "q/messages", "", true},
		{"the account", Rule{Account: "devstoreaccount1"}, wire.Blob, "PutBlob", "c/b", "", true},
		{"another account", Rule{Account: "other"}, wire.Blob, "PutBlob", "c/b", "", false},
		{"a resource", Rule{Resource: "photos/2026/*"}, wire.Blob, "PutBlob", "photos/2026/a/b.png", "", true},
		{"a decoded resource", Rule{Resource: "photos/ä b"}, wire.Blob, "PutBlob", "photos/%C3%A4%20b", "", true},
		{"another resource", Rule{Resource: "photos/2026/*"}, wire.Blob, "PutBlob", "photos/2025/b.png", "", false},
		{"an entity", Rule{Resource: "T(PartitionKey='a',*"}, wire.Table, "GetEntity", "T(PartitionKey='a',RowKey='b')", "",
			true},
		{"one character", Rule{Resource: "c/?"}, wire.Blob, "PutBlob", "c/bb", "", false},
		{"the client", Rule{Client: "azsdk-go-*"}, wire.Blob, "PutBlob", "c/b", "azsdk-go-azblob/v1.6.0", true},
		{"another client", Rule{Client: "azsdk-go-*"}, wire.Blob, "PutBlob", "c/b", "curl/8", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.rule.Error = "ServerBusy"
			s := newSet()
			if _, err := s.Add(tc.rule); err != nil {
				t.Fatal(err)
			}
			f, err := s.Find(request(t, tc.svc, tc.op, tc.path, "User-Agent", tc.agent))
			if err != nil {
				t.Fatal(err)
			}
			if (f != nil) != tc.want {
				t.Errorf("the rule takes the request: %v, want %v", f != nil, tc.want)
			}
		})
	}
}

func TestRuleChoosesAmongRequests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		rule Rule
		want string // x for a request that fails
	}{
		{"every one", Rule{}, "xxxxxxxx"},
		{"after some", Rule{Skip: 3}, "...xxxxx"},
		{"every third", Rule{Nth: 3}, "..x..x.."},
		{"at most two", Rule{Count: 2}, "xx......"},
		{"all of it", Rule{Skip: 1, Nth: 2, Count: 2}, "..x.x..."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.rule.Error = "ServerBusy"
			s := newSet()
			if _, err := s.Add(tc.rule); err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for range tc.want {
				f, err := s.Find(request(t, wire.Blob, "PutBlob", "c/b"))
				if err != nil {
					t.Fatal(err)
				}
				if f != nil {
					got.WriteByte('x')
				} else {
					got.WriteByte('.')
				}
			}
			if got.String() != tc.want {
				t.Errorf("requests that fail: %s, want %s", &got, tc.want)
			}
		})
	}
}

// A share with a seed chooses the same requests again.
func TestShareIsRepeatable(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (list []bool) {
		s := newSet()
		if _, err := s.Add(Rule{Share: 0.3, Seed: seed, Error: "ServerBusy"}); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			f, err := s.Find(request(t, wire.Blob, "PutBlob", "c/b"))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, f != nil)
		}
		return list
	}
	first, again, hits := run(7), run(7), 0
	for i := range first {
		if first[i] != again[i] {
			t.Fatalf("request %d: %v, then %v", i, first[i], again[i])
		}
		if first[i] {
			hits++
		}
	}
	if hits < 200 || hits > 400 {
		t.Errorf("%d of 1000 requests fail, want about 300", hits)
	}
}

func TestRuleEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := NewSet([]string{"PutBlob"}, func() time.Time { return now })
	if _, err := s.Add(Rule{For: Duration(time.Minute), Error: "ServerBusy"}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {time.Minute - 1, true}, {time.Minute, false}} {
		now = time.Unix(1000, 0).Add(tc.after)
		f, err := s.Find(request(t, wire.Blob, "PutBlob", "c/b"))
		if err != nil {
			t.Fatal(err)
		}
		if (f != nil) != tc.want {
			t.Errorf("after %v the rule has effect: %v, want %v", tc.after, f != nil, tc.want)
		}
	}
	if got := s.Rules(); len(got) != 1 || !got[0].Ended {
		t.Errorf("rules %+v, want one that has ended", got)
	}
}

func TestThrottleHasARatePerKey(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := NewSet([]string{"PutBlob"}, func() time.Time { return now })
	if _, err := s.Add(Rule{Throttle: &Throttle{Requests: 2, Per: "container"},
		RetryAfter: Duration(time.Second)}); err != nil {
		t.Fatal(err)
	}
	put := func(path string) error {
		r := request(t, wire.Blob, "PutBlob", path)
		f, err := s.Find(r)
		if err != nil || f == nil {
			t.Fatalf("fault %v, %v", f, err)
		}
		return f.Serve(r, func() error { return nil })
	}
	for _, tc := range []struct {
		path  string
		after time.Duration
		busy  bool
	}{
		{"a/1", 0, false}, {"a/2", 0, false}, {"a/3", 0, true}, {"b/1", 0, false},
		{"a/4", 499 * time.Millisecond, true}, {"a/5", 500 * time.Millisecond, false},
	} {
		now = time.Unix(1000, 0).Add(tc.after)
		err := put(tc.path)
		if errors.Is(err, wire.ErrServerBusy) != tc.busy {
			t.Errorf("%s after %v: %v, want busy %v", tc.path, tc.after, err, tc.busy)
		}
		var e *wire.Error
		if errors.As(err, &e) && (len(e.Headers) != 1 || e.Headers[0] != (wire.Detail{Name: "Retry-After", Value: "1"})) {
			t.Errorf("headers %v, want Retry-After: 1", e.Headers)
		}
	}
	if got := s.Rules()[0]; got.Requests != 6 || got.Hits != 2 {
		t.Errorf("%d requests and %d hits, want 6 and 2", got.Requests, got.Hits)
	}
}

// Entities are taken from the rate of their partition and of their account; what exceeds a rate holds up what follows.
func TestThrottleOfEntities(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := NewSet([]string{"InsertEntity"}, func() time.Time { return now })
	rule := Rule{Throttle: &Throttle{PartitionEntities: 10, AccountEntities: 25}, RetryAfter: Duration(time.Second)}
	if _, err := s.Add(rule); err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct {
		table, partition string
		entities         int
		after            time.Duration
		busy             string
	}{
		{"T", "a", 6, 0, ""},
		{"t", "a", 6, 0, ""}, // begins within the rate of the partition, in a table of the same name
		{"T", "a", 1, 0, "partition"},
		{"T", "b", 10, 0, ""},
		{"U", "a", 5, 0, ""},
		{"U", "b", 1, 0, "account"},
		{"T", "a", 1, 290 * time.Millisecond, "partition"},
		{"T", "a", 1, 310 * time.Millisecond, ""},
	} {
		now = time.Unix(1000, 0).Add(tc.after)
		r := request(t, wire.Table, "InsertEntity", tc.table)
		f, err := s.Find(r)
		if err != nil || f == nil {
			t.Fatalf("fault %v, %v", f, err)
		}
		err = f.Serve(r, func() error { return r.Admit(tc.table, tc.partition, tc.entities) })
		var e *wire.Error
		switch {
		case tc.busy == "":
			if err != nil {
				t.Errorf("step %d: %v", i, err)
			}
		case !errors.As(err, &e) || !errors.Is(err, wire.ErrServerBusy) || !strings.Contains(err.Error(), tc.busy+" limit"):
			t.Errorf("step %d: %v, want ServerBusy of the %s", i, err, tc.busy)
		case len(e.Headers) != 1 || e.Headers[0] != (wire.Detail{Name: "Retry-After", Value: "1"}):
			t.Errorf("step %d: headers %v", i, e.Headers)
		}
	}
	if got := s.Rules()[0]; got.Requests != 8 || got.Hits != 3 {
		t.Errorf("%d requests and %d hits, want 8 and 3", got.Requests, got.Hits)
	}
}

func TestInvalidRules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, rule, want string }{
		{"no action", `{"service":"blob"}`, "no action"},
		{"two actions", `{"error":"ServerBusy","unanswered":true}`, "exclude each other"},
		{"unknown member", `{"eror":"ServerBusy"}`, "eror"},
		{"unknown error", `{"error":"Busy"}`, "want ServerBusy"},
		{"unknown service", `{"service":"file","error":"ServerBusy"}`, "want blob"},
		{"unknown operation", `{"operation":"Put Blobs","error":"ServerBusy"}`, "matches no operation"},
		{"negative count", `{"count":-1,"error":"ServerBusy"}`, "count is negative"},
		{"share over 1", `{"share":1.5,"error":"ServerBusy"}`, "share"},
		{"bad name", `{"name":"a b","error":"ServerBusy"}`, "name"},
		{"bad time", `{"delay":"soon"}`, "soon"},
		{"long delay", `{"delay":"1h"}`, "longer"},
		{"fraction of a second", `{"error":"ServerBusy","retryAfter":"1.5s"}`, "whole seconds"},
		{"retryAfter alone", `{"delay":"1s","retryAfter":"1s"}`, "goes with"},
		{"bad reset", `{"reset":"later"}`, "want before"},
		{"negative offset", `{"corrupt":-1}`, "negative"},
		{"corruptRequest alone", `{"delay":"1s","corruptRequest":true}`, "goes with"},
		{"throttle without a rate", `{"throttle":{}}`, "positive number"},
		{"entities of blobs", `{"service":"blob","throttle":{"partitionEntities":1}}`, "tables"},
		{"entities and requests", `{"throttle":{"partitionEntities":1,"requests":1}}`, "entities"},
		{"entities per", `{"throttle":{"accountEntities":1,"per":"partition"}}`, "entities"},
		{"negative entities", `{"throttle":{"accountEntities":-1}}`, "entities"},
		{"throttle of both", `{"throttle":{"requests":1,"bytes":1}}`, "positive number"},
		{"unknown endpoint", `{"endpoint":"third","error":"ServerBusy"}`, "want primary or secondary"},
		{"negative lag", `{"secondary":{"lag":"-1s"}}`, "lag is"},
		{"unknown status", `{"secondary":{"status":"dead"}}`, "want live"},
		{"failover with a status", `{"secondary":{"failedOver":true,"status":"live"}}`, "no status"},
		{"lag of an endpoint", `{"endpoint":"primary","secondary":{"lag":"1s"}}`, "cannot be combined"},
		{"throttle per what", `{"throttle":{"requests":1,"per":"blob"}}`, "want account"},
		{"two values", `{"unanswered":true}{}`, "more than one"},
		{"long pattern", `{"unanswered":true,"resource":"` + strings.Repeat("x", 1025) + `"}`, "longer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, err := Decode([]byte(tc.rule))
			if err == nil {
				_, err = newSet().Add(r)
			}
			if !errors.Is(err, ErrRule) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want ErrRule with %q", err, tc.want)
			}
		})
	}
}

func TestRequestAsksForItsFault(t *testing.T) {
	t.Parallel()
	s := newSet()
	for _, tc := range []struct {
		header string
		err    bool
	}{
		{`{"error":"ServerBusy"}`, false}, {`{"unanswered":true,"delay":"1ms"}`, false},
		{`busy`, true}, {`{"error":"ServerBusy","count":3}`, true}, {`{"error":"ServerBusy","operation":"Put Blob"}`, true},
		{`{"throttle":{"requests":1}}`, true}, {`{}`, true},
	} {
		f, err := s.Find(request(t, wire.Blob, "GetBlob", "c/b", InjectHeader, tc.header))
		if errors.Is(err, wire.ErrInvalidHeaderValue) != tc.err || (f == nil) != tc.err {
			t.Errorf("%s: fault %v, %v; want an error %v", tc.header, f != nil, err, tc.err)
		}
	}
}

func TestNamesAndLimits(t *testing.T) {
	t.Parallel()
	s := newSet()
	busy := Rule{Error: "ServerBusy"}
	named := busy
	named.Name = "fault-1"
	if _, err := s.Add(named); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Add(busy); err != nil || r.Name != "fault-2" {
		t.Errorf("added %q, %v; want fault-2, since fault-1 is taken", r.Name, err)
	}
	if _, err := s.Add(named); !errors.Is(err, ErrExists) {
		t.Errorf("adding fault-1 again: %v, want ErrExists", err)
	}
	if err := s.Remove("nothing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("removing what is not there: %v, want ErrNotFound", err)
	}
	for range MaxRules - 2 {
		if _, err := s.Add(busy); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Add(busy); !errors.Is(err, ErrTooMany) {
		t.Errorf("rule %d: %v, want ErrTooMany", MaxRules+1, err)
	}
	if n := s.Clear(); n != MaxRules {
		t.Errorf("cleared %d rules, want %d", n, MaxRules)
	}
	if f, err := s.Find(request(t, wire.Blob, "PutBlob", "c/b")); f != nil || err != nil {
		t.Errorf("without rules: %v, %v", f, err)
	}
}

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"*", "", true}, {"a*c", "abbbc", true}, {"a*c", "abbbd", false}, {"*a*b*", "xxaxxbxx", true},
		{"a?c", "abc", true}, {"a?c", "ac", false}, {"a*", "b", false}, {"**a", "bba", true}, {"a", "ab", false},
	} {
		if got := glob(tc.pattern, tc.s); got != tc.want {
			t.Errorf("glob(%q, %q) = %v, want %v", tc.pattern, tc.s, got, tc.want)
		}
	}
}

// A pattern of stars does not take exponential time.
func TestGlobIsBounded(t *testing.T) {
	t.Parallel()
	if glob(strings.Repeat("*a", 500)+"b", strings.Repeat("a", 4000)) {
		t.Error("matched")
	}
}

func BenchmarkFindWithoutRules(b *testing.B) {
	s := newSet()
	hr := httptest.NewRequest("PUT", "http://127.0.0.1/devstoreaccount1/c/b", nil)
	r, _ := wire.Parse(wire.Blob, hr, httptest.NewRecorder(), time.Unix(0, 0), wire.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if f, _ := s.Find(r); f != nil {
			b.Fatal("a fault")
		}
	}
}

// Without rules, a request costs one atomic load and no allocation.
func TestFindWithoutRulesAllocatesNothing(t *testing.T) {
	s := NewSet([]string{"PutBlob"}, time.Now)
	r := request(t, wire.Blob, "PutBlob", "box/b")
	if n := testing.AllocsPerRun(100, func() {
		if f, err := s.Find(r); f != nil || err != nil {
			t.Fatal(f, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
