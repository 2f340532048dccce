package properties

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Limits of CORS rules.
const (
	maxRules           = 5
	maxOrigins         = 64
	maxOriginLength    = 256
	maxHeaderLength    = 256
	maxLiteralHeaders  = 64
	maxPrefixedHeaders = 2
)

// Rule is one CORS rule. Headers that end in * are prefixes.
type Rule struct {
	Origins, Methods, AllowedHeaders, ExposedHeaders []string
	MaxAgeInSeconds                                  int
}

type corsRule struct {
	AllowedOrigins, AllowedMethods, AllowedHeaders, ExposedHeaders, MaxAgeInSeconds string
}

var corsMethods = []string{"DELETE", "GET", "HEAD", "MERGE", "POST", "OPTIONS", "PUT", "PATCH"}

func (read *reader) rules(in []corsRule) []Rule {
	if len(in) > maxRules {
		read.fail("")
		return nil
	}
	var out []Rule
	for _, r := range in {
		rule := Rule{Origins: split(r.AllowedOrigins), Methods: split(strings.ToUpper(r.AllowedMethods)),
			AllowedHeaders: read.headers(r.AllowedHeaders), ExposedHeaders: read.headers(r.ExposedHeaders)}
		var err error
		if rule.MaxAgeInSeconds, err = strconv.Atoi(strings.TrimSpace(r.MaxAgeInSeconds)); err != nil ||
			rule.MaxAgeInSeconds < 0 {
			read.fail("MaxAgeInSeconds must be a number of seconds.")
		}
		if len(rule.Origins) == 0 || len(rule.Origins) > maxOrigins ||
			slices.ContainsFunc(rule.Origins, longerThan(maxOriginLength)) {
			read.fail("A rule has 1 to 64 allowed origins of up to 256 characters.")
		}
		if len(rule.Methods) == 0 || slices.ContainsFunc(rule.Methods,
			func(m string) bool { return !slices.Contains(corsMethods, m) }) {
			read.fail("A rule must have allowed methods, and only supported ones.")
		}
		out = append(out, rule)
	}
	return out
}

// headers splits a list. Azure stores literal names before prefixes.
func (read *reader) headers(s string) []string {
	list := split(s)
	prefixes := 0
	for _, h := range list {
		if strings.HasSuffix(h, "*") {
			prefixes++
		}
	}
	if prefixes > maxPrefixedHeaders || len(list)-prefixes > maxLiteralHeaders ||
		slices.ContainsFunc(list, longerThan(maxHeaderLength)) {
		read.fail("A rule has up to 64 literal and 2 prefixed headers of up to 256 characters.")
	}
	slices.SortStableFunc(list, func(a, b string) int {
		return btoi(strings.HasSuffix(a, "*")) - btoi(strings.HasSuffix(b, "*"))
	})
	return list
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func longerThan(n int) func(string) bool { return func(s string) bool { return len(s) > n } }

func split(s string) []string {
	var list []string
	for _, item := range strings.Split(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

func corsXML(x *wire.XML, rules []Rule) {
	if len(rules) == 0 {
		x.Empty("Cors")
		return
	}
	x.Open("Cors")
	for _, r := range rules {
		x.Open("CorsRule").Text("AllowedMethods", strings.Join(r.Methods, ",")).Text("AllowedOrigins",
			strings.Join(r.Origins, ",")).
			Text("AllowedHeaders", strings.Join(r.AllowedHeaders, ",")).Text("ExposedHeaders",
			strings.Join(r.ExposedHeaders, ",")).
			Int("MaxAgeInSeconds", int64(r.MaxAgeInSeconds)).Close("CorsRule")
	}
	x.Close("Cors")
}

// ErrCORSPreflightFailure: CORS is off, or no rule permits the request that the browser asks about.
var ErrCORSPreflightFailure = &wire.Error{Status: http.StatusForbidden, Code: "CorsPreflightFailure",
	Message: "CORS not enabled or no matching rule found for this request."}

// errNoCORSHeader: a preflight request without Origin or Access-Control-Request-Method.
var errNoCORSHeader = wire.ErrInvalidHeaderValue.WithMessage("A required CORS header is not present.")

// maxAskedHeaders is the maximum number of headers that a preflight request may name.
const maxAskedHeaders = 256

// preflight decides whether a browser may send the request that it describes: the first rule that matches origin,
// method and headers decides. It sets the answer's headers; the caller sends 200.
// https://learn.microsoft.com/rest/api/storageservices/preflight-blob-request
func preflight(r *wire.Request, rules []Rule) error {
	origin, method := r.Header("Origin"), r.Header("Access-Control-Request-Method")
	if origin == "" || method == "" {
		return errNoCORSHeader
	}
	if !slices.Contains(corsMethods, method) {
		return wire.InvalidHeader("Access-Control-Request-Method", method)
	}
	asked := r.Header("Access-Control-Request-Headers")
	headers := split(asked)
	if len(headers) > maxAskedHeaders { // each is compared with all that a rule allows
		return ErrCORSPreflightFailure
	}
	for _, rule := range rules {
		match := rule.origin(origin)
		if match == "" || !slices.Contains(rule.Methods, method) || !rule.allows(headers) {
			continue
		}
		allowOrigin(r, match, origin)
		r.Set("Access-Control-Allow-Methods", method)
		if asked != "" {
			r.Set("Access-Control-Allow-Headers", asked)
		}
		r.Set("Access-Control-Max-Age", strconv.Itoa(rule.MaxAgeInSeconds))
		return nil
	}
	return ErrCORSPreflightFailure
}

// setCORS sets the CORS headers of the answer to an actual request. If no rule matches there is no error: the browser
// refuses the answer.
func setCORS(r *wire.Request, rules []Rule) {
	if len(rules) == 0 || r.HTTP.Method == http.MethodOptions {
		return
	}
	origin := r.Header("Origin")
	named := false // a rule names origins, so that the answer depends on the origin
	for _, rule := range rules {
		named = named || !slices.Contains(rule.Origins, "*")
		if origin == "" || !slices.Contains(rule.Methods, r.HTTP.Method) {
			continue
		}
		if match := rule.origin(origin); match != "" {
			allowOrigin(r, match, origin)
			if len(rule.ExposedHeaders) > 0 {
				// the front-end expands prefixes when it sends the answer
				r.Set("Access-Control-Expose-Headers", strings.Join(rule.ExposedHeaders, ","))
			}
			return
		}
	}
	if named && (r.HTTP.Method == http.MethodGet || r.HTTP.Method == http.MethodHead) {
		r.Set("Vary", "Origin")
	}
}

// allowOrigin sets the headers that say whose scripts may read the answer.
func allowOrigin(r *wire.Request, match, origin string) {
	if match == "*" {
		r.Set("Access-Control-Allow-Origin", "*")
		return
	}
	r.Set("Access-Control-Allow-Origin", origin)
	r.Set("Access-Control-Allow-Credentials", "true")
	r.Set("Vary", "Origin")
}

// origin returns the allowed origin that matches, or "". "https://*.example.com" matches subdomains.
func (rule Rule) origin(origin string) string {
	for _, allowed := range rule.Origins {
		if allowed == "*" || allowed == origin {
			return allowed
		}
		if before, after, ok := strings.Cut(allowed, "*."); ok && len(origin) > len(before)+len(after)+1 &&
			strings.HasPrefix(origin, before) && strings.HasSuffix(origin, "."+after) {
			return allowed
		}
	}
	return ""
}

// allows reports whether the rule allows all of the headers.
func (rule Rule) allows(headers []string) bool {
	for _, h := range headers {
		if !slices.ContainsFunc(rule.AllowedHeaders, func(allowed string) bool {
			if prefix, ok := strings.CutSuffix(allowed, "*"); ok {
				return len(h) >= len(prefix) && strings.EqualFold(h[:len(prefix)], prefix)
			}
			return strings.EqualFold(h, allowed)
		}) {
			return false
		}
	}
	return true
}
