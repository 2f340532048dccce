package lazulitest_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
	"github.com/lazuli-storage/lazuli/internal/server/seed"
	"github.com/lazuli-storage/lazuli/internal/test/faultdoors"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

func decode(t *testing.T, text string) faultrule.Rule {
	t.Helper()
	r, err := faultrule.Decode([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// The rules have every member that a rule can have, so that the tests of the doors miss none.
func TestRulesHaveEveryMember(t *testing.T) {
	t.Parallel()
	var have []faultrule.Rule
	for _, r := range faultdoors.Rules {
		have = append(have, decode(t, r.JSON))
	}
	used := func(field int) bool {
		for _, r := range have {
			if !reflect.ValueOf(r).Field(field).IsZero() {
				return true
			}
		}
		return false
	}
	for i := range reflect.TypeFor[faultrule.Rule]().NumField() {
		if !used(i) {
			t.Errorf("no rule has %s", reflect.TypeFor[faultrule.Rule]().Field(i).Name)
		}
	}
}

// set is the only rule of a server, as it was added. Its name is left out unless the rule had one.
func set(t *testing.T, rules *faultrule.Set, want faultrule.Rule) faultrule.Rule {
	t.Helper()
	list := rules.Rules()
	rules.Clear()
	if len(list) != 1 {
		t.Fatalf("%d rules, want 1", len(list))
	}
	if want.Name == "" {
		list[0].Name = ""
	}
	return list[0].Rule
}

func start(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.Start(server.Config{InMemory: true, Log: slog.New(slog.DiscardHandler), Faults: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

func TestDashboardSetsEveryRule(t *testing.T) {
	t.Parallel()
	s := start(t)
	site := dashboard.New(dashboard.Options{Backend: func() dashboard.Backend { return s }, Accounts: auth.Development(),
		Requests: requestlog.New(time.Now), InMemory: true})
	page := httptest.NewRecorder()
	site.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/ui/control", nil))
	token := regexp.MustCompile(`name="csrf" content="([0-9a-f]+)"`).FindStringSubmatch(page.Body.String())
	if token == nil {
		t.Fatalf("the page of control has no token:\n%s", page.Body)
	}
	send := func(form url.Values) {
		t.Helper()
		form.Set("csrf", token[1])
		r := httptest.NewRequest(http.MethodPost, "/ui/control", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		if w.Code != http.StatusSeeOther {
			t.Fatalf("%v: %d\n%s", form, w.Code, w.Body)
		}
	}
	for _, r := range faultdoors.Rules {
		want := decode(t, r.JSON)
		send(url.Values{"action": {"faultjson"}, "rule": {r.JSON}})
		if diff := cmp.Diff(want, set(t, s.Faults(), want)); diff != "" {
			t.Errorf("%s as JSON:\n%s", r.JSON, diff)
		}
		if r.Form == "" {
			continue
		}
		form := url.Values{"action": {"fault"}}
		words := strings.Split(r.Form, "|")
		for i := 0; i+1 < len(words); i += 2 {
			form.Set(words[i], words[i+1])
			if name := regexp.MustCompile(`name="` + words[i] + `"`); !name.MatchString(page.Body.String()) {
				t.Errorf("the form has no field %s", words[i])
			}
		}
		send(form)
		if diff := cmp.Diff(want, set(t, s.Faults(), want)); diff != "" {
			t.Errorf("%s by the form:\n%s", r.JSON, diff)
		}
	}
}

func TestSeedSetsEveryRule(t *testing.T) {
	t.Parallel()
	text := "faults:\n"
	for _, r := range faultdoors.Rules {
		text += "- " + r.JSON + "\n" // JSON is YAML
	}
	file := filepath.Join(t.TempDir(), "seed.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := seed.Load(file, auth.DevelopmentAccount)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Faults) != len(faultdoors.Rules) {
		t.Fatalf("%d rules, want %d", len(got.Faults), len(faultdoors.Rules))
	}
	for i, r := range faultdoors.Rules {
		if diff := cmp.Diff(decode(t, r.JSON), got.Faults[i]); diff != "" {
			t.Errorf("%s:\n%s", r.JSON, diff)
		}
	}
}

// client is a client of a blob endpoint that sends each request once.
func client(t *testing.T, endpoint string) *service.Client {
	t.Helper()
	credential, err := service.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := service.NewClientWithSharedKeyCredential(endpoint, credential,
		&service.ClientOptions{ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Rules of WithFault and AddFault have their effect, and RequireFaultHit sees it.
func TestLazulitestSetsEveryRule(t *testing.T) {
	t.Parallel()
	l := lazulitest.Start(t, lazulitest.WithFault(lazulitest.FaultRule{Name: "first", Error: "ServerBusy", Count: 1}))
	primary, secondary := client(t, l.BlobURL()), client(t, l.BlobURL()+"-secondary")
	if _, err := primary.NewListContainersPager(nil).NextPage(t.Context()); err == nil {
		t.Error("the rule of WithFault has no effect")
	}
	l.RequireFaultHit(t, "first")
	l.RemoveFault(t, "first")
	for _, r := range faultdoors.Rules {
		rule := decode(t, r.JSON)
		if rule.Operation != "" || rule.Throttle != nil && rule.Throttle.PartitionEntities > 0 {
			continue // for other requests than these
		}
		endpoint := primary
		if rule.Secondary != nil && !rule.Secondary.FailedOver {
			endpoint = secondary
		}
		name := l.AddFault(t, rule)
		for range 2 { // the second request is beyond the rate of a throttle
			_, _ = endpoint.NewListContainersPager(nil).NextPage(t.Context())
		}
		l.RequireFaultHit(t, name)
		l.RemoveFault(t, name)
	}
}

// A request asks for each rule that concerns it alone, and is refused for the others.
func TestRequestAsksForEveryRule(t *testing.T) {
	t.Parallel()
	l := lazulitest.Start(t)
	blobs := client(t, l.BlobURL())
	for _, r := range faultdoors.Rules {
		var answer *http.Response
		ctx := policy.WithCaptureResponse(policy.WithHTTPHeader(t.Context(), http.Header{faultrule.InjectHeader: {r.JSON}}),
			&answer)
		_, err := blobs.NewListContainersPager(nil).NextPage(ctx)
		var e *azcore.ResponseError
		refused := errors.As(err, &e) && e.ErrorCode == "InvalidHeaderValue"
		broken := err != nil && e == nil
		if refused == r.Header || r.Header && !broken &&
			(answer == nil || answer.Header.Get(faultrule.Header) != "requested") {
			t.Errorf("%s: %v, %v", r.JSON, answer, err)
		}
	}
}
