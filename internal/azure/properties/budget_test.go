package properties

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// Documents and headers that repeat a piece of their grammar take work that grows with their length.
func TestParsersStayInTheirBudget(t *testing.T) {
	workbudget.Inputs(MaxPoliciesBytes, "<SignedIdentifiers>",
		[]string{"<SignedIdentifier><Id>a</Id></SignedIdentifier>", "<SignedIdentifier>", "x", "<SignedIdentifier/>"},
		"</SignedIdentifiers>", func(body string) {
			workbudget.Default.Check(t, len(body), func() { _, _ = ParsePolicies([]byte(body), "r") })
		})
	workbudget.Inputs(MaxBody,
		"<StorageServiceProperties><Cors><CorsRule><AllowedMethods>GET</AllowedMethods><AllowedHeaders>",
		[]string{",", "a,", "a*,", "<AllowedHeaders>"},
		"</AllowedHeaders></CorsRule></Cors></StorageServiceProperties>", func(body string) {
			workbudget.Default.Check(t, len(body), func() { _, _ = Properties{}.Update(wire.Blob, []byte(body), Features{}) })
		})
	rule := Rule{Methods: []string{"GET"}, Origins: []string{"*"}}
	for range maxLiteralHeaders {
		rule.AllowedHeaders = append(rule.AllowedHeaders, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab")
	}
	rule.AllowedHeaders = append(rule.AllowedHeaders, "a*")
	workbudget.Inputs(wire.MaxHeaderBytes, "", []string{",", "a,", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,"}, "",
		func(asked string) {
			hr := httptest.NewRequest("OPTIONS", "http://h/devstoreaccount1/a", nil)
			hr.Header.Set("Origin", "x")
			hr.Header.Set("Access-Control-Request-Method", "GET")
			hr.Header.Set("Access-Control-Request-Headers", asked)
			r, err := wire.Parse(wire.Blob, hr, httptest.NewRecorder(), time.Now(), wire.Options{})
			if err != nil {
				return
			}
			budget := workbudget.Default
			budget.Time = 20 * time.Millisecond
			budget.TimePerByte = 500 * time.Nanosecond
			budget.Check(t, len(asked), func() { _ = preflight(r, []Rule{rule, rule, rule, rule, rule}) })
		})
}

// FuzzPolicies: any document is read or refused.
func FuzzPolicies(f *testing.F) {
	f.Add(
		[]byte(
			"<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Expiry>2030-01-01</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer workbudget.Default.Start(t, len(body))()
		if list, err := ParsePolicies(body, "raup"); err == nil && len(list) > maxPolicies {
			t.Errorf("%d policies", len(list))
		}
	})
}

// FuzzProperties: any document is read or refused.
func FuzzProperties(f *testing.F) {
	f.Add(
		[]byte(
			"<StorageServiceProperties><Cors><CorsRule><AllowedMethods>GET</AllowedMethods><AllowedOrigins>*</AllowedOrigins><MaxAgeInSeconds>1</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>"))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer workbudget.Default.Start(t, len(body))()
		if p, err := (Properties{}).Update(wire.Blob, body, Features{}); err == nil {
			p.XML(wire.Blob, wire.LatestVersion())
		}
	})
}

// A preflight request asks for as many headers as are compared, and no more.
func TestPreflightAsksForFewHeaders(t *testing.T) {
	for count, want := range map[int]error{maxAskedHeaders: nil, maxAskedHeaders + 1: ErrCORSPreflightFailure} {
		hr := httptest.NewRequest("OPTIONS", "http://h/devstoreaccount1/a", nil)
		hr.Header.Set("Origin", "x")
		hr.Header.Set("Access-Control-Request-Method", "GET")
		hr.Header.Set("Access-Control-Request-Headers", strings.Repeat("a,", count))
		r, err := wire.Parse(wire.Blob, hr, httptest.NewRecorder(), time.Now(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := preflight(r, []Rule{{Methods: []string{"GET"}, Origins: []string{"*"},
			AllowedHeaders: []string{"*"}}}); !errors.Is(err, want) {
			t.Errorf("%d headers: %v, want %v", count, err, want)
		}
	}
}
