package faultrule

import (
	"net/url"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// matcher is the part of a rule that chooses requests, prepared.
type matcher struct {
	service                   wire.Service
	anyService                bool
	operation                 string // folded, see fold
	resource, account, client string
	endpoint                  string
	secondary                 *Secondary // chooses among the requests, if the rule has it
}

func newMatcher(r *Rule) matcher {
	svc, named := services[r.Service]
	return matcher{service: svc, anyService: !named, operation: fold(r.Operation), resource: r.Resource,
		account: r.Account, client: r.Client, endpoint: r.Endpoint, secondary: r.Secondary}
}

// matches reports whether a rule concerns the request. The request's operation must be known.
func (m *matcher) matches(r *wire.Request) bool {
	switch {
	case !m.anyService && m.service != r.Service,
		m.account != "" && m.account != r.Account,
		m.endpoint != "" && (m.endpoint == secondaryEndpoint) != r.Secondary,
		m.secondary != nil && !m.secondary.concerns(r),
		m.operation != "" && !glob(m.operation, fold(r.Operation)),
		m.client != "" && !glob(m.client, r.HTTP.UserAgent()),
		m.resource != "" && !glob(m.resource, resource(r)):
		return false
	}
	return true
}

// resource is the request's path below the account, decoded, without the leading slash.
func resource(r *wire.Request) string {
	path := strings.TrimPrefix(r.RawPath, "/")
	if decoded, err := url.PathUnescape(path); err == nil {
		return decoded
	}
	return path
}

// fold makes "Put Block List" and "PutBlockList" equal.
func fold(operation string) string { return strings.ToLower(strings.ReplaceAll(operation, " ", "")) }

// glob reports whether s matches pattern: "*" matches any bytes, "?" matches one. Its time is at most proportional to
// the product of the lengths.
func glob(pattern, s string) bool {
	var p, i int
	star, resume := -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0: // the last star matches one byte more
			resume++
			p, i = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
