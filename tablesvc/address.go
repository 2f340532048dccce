package tablesvc

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// The kinds of resources that a path names.
const (
	onService   frontend.Level = "service"   // /
	onPreflight frontend.Level = "preflight" // any path, method OPTIONS
	onBatch     frontend.Level = "batch"     // /$batch
	onTables    frontend.Level = "tables"    // /Tables
	onOneTable  frontend.Level = "one table" // /Tables('name')
	onTable     frontend.Level = "table"     // /name or /name()
	onPartition frontend.Level = "partition" // /name(PartitionKey='p')
	onEntity    frontend.Level = "entity"    // /name(PartitionKey='p',RowKey='r')

	// The levels of POST requests whose X-HTTP-Method names another method.
	onTunnelledPut    frontend.Level = "entity, X-HTTP-Method: PUT"
	onTunnelledMerge  frontend.Level = "entity, X-HTTP-Method: MERGE or PATCH"
	onTunnelledDelete frontend.Level = "entity, X-HTTP-Method: DELETE"
)

// address is the resource that a path names.
type address struct {
	level          frontend.Level
	table          string // as written
	partition, row string
}

// call is a request whose path is parsed.
type call struct {
	*wire.Request
	address
	format format
	// caller is the identity that sends the request, set when the call is admitted.
	caller auth.Identity
	// version is the service version that the request asks for.
	version wire.Version
}

// resolve parses the path of a request. It is the front-end's Resolve.
func resolve(_ *Service, r *wire.Request) (*call, frontend.Level, error) {
	c := &call{Request: r, version: versionOf(r)}
	if r.HTTP.Method == http.MethodOptions {
		return c, onPreflight, nil
	}
	var err error
	if c.address, err = parsePath(r.RawPath); err != nil {
		return c, "", err
	}
	if c.Comp == "" {
		c.format, err = acceptedFormat(c.version, r.Query.Get("$format"), r.Header("Accept"))
		switch {
		case err != nil && c.level == onBatch: // whose parts have formats of their own
			c.format = defaultFormat(c.version)
		case err != nil:
			return c, "", err
		}
		if prefer := c.preference(r.Header("Prefer")); r.HTTP.Method == http.MethodPost && prefer != "" {
			r.Set("Preference-Applied", prefer)
		}
	}
	level, err := c.tunnel()
	return c, level, err
}

// preference returns the value of a Prefer header, "" if the service does not support it in the request's version.
func (c *call) preference(prefer string) string {
	if c.version >= versionUpsert && (prefer == preferContent || prefer == preferNoContent) {
		return prefer
	}
	return ""
}

// versionOf returns the service version of a request: that of x-ms-version, else that of the shared access signature,
// else the newest, which suits a person with a browser or curl.
func versionOf(r *wire.Request) wire.Version {
	if r.Version != 0 {
		return r.Version
	}
	if v, ok := wire.ParseVersion(r.Query.Get("sv")); ok {
		return min(v, wire.LatestVersion())
	}
	return wire.LatestVersion()
}

// tunnel returns the level of the request, which is another one if X-HTTP-Method overrides the method.
// https://learn.microsoft.com/rest/api/storageservices/merge-entity
func (c *call) tunnel() (frontend.Level, error) {
	override := c.HTTP.Header["X-Http-Method"]
	switch {
	case len(override) == 0 || c.level != onEntity:
		return c.level, nil
	case len(override) > 1:
		return "", errMethodOverrideCount
	case c.HTTP.Method != http.MethodPost:
		return "", errMethodOverrideVerb
	}
	switch override[0] {
	case http.MethodPut:
		return onTunnelledPut, nil
	case "MERGE", http.MethodPatch:
		return onTunnelledMerge, nil
	case http.MethodDelete:
		return onTunnelledDelete, nil
	}
	return "", errMethodOverride
}

// parsePath parses a percent-encoded path below the account. Quotes may be encoded or not. Inside a quoted key, a quote
// is doubled. https://learn.microsoft.com/rest/api/storageservices/addressing-table-service-resources
func parsePath(raw string) (a address, err error) {
	path, decodeErr := url.PathUnescape(strings.TrimPrefix(raw, "/"))
	if decodeErr != nil {
		return a, errSyntax
	}
	path = strings.ToValidUTF8(path, "\ufffd")
	name, rest, parenthesis := strings.Cut(path, "(")
	if !parenthesis {
		name = strings.TrimSuffix(name, "/")
	}
	a.table = name
	switch {
	case path == "":
		a.level = onService
		return a, nil
	case name == "$batch": // its parts name the table
		a.level, a.table = onBatch, ""
		return a, nil
	case strings.ContainsAny(name, "/'"):
		return a, errSyntax
	}
	a.level = onTable
	tables := strings.EqualFold(name, "Tables")
	if tables {
		a.level, a.table = onTables, ""
	}
	if !parenthesis {
		return a, nil
	}
	rest = strings.TrimSuffix(rest, "/")
	if !strings.HasSuffix(rest, ")") {
		return a, errSyntax
	}
	rest = strings.TrimSpace(rest[:len(rest)-1])
	switch {
	case rest == "":
		return a, nil
	case tables:
		var ok bool
		if a.table, rest, ok = cutQuoted(rest); !ok || rest != "" {
			return a, errSyntax
		}
		a.level = onOneTable
		return a, nil
	}
	return a.keys(rest)
}

// keys parses PartitionKey='p',RowKey='r' in either order, or only the first.
func (a address) keys(s string) (address, error) {
	var hasPartition, hasRow bool
	for {
		name, rest, ok := strings.Cut(s, "=")
		if !ok {
			return a, errSyntax
		}
		var value string
		if value, rest, ok = cutQuoted(strings.TrimSpace(rest)); !ok {
			return a, errSyntax
		}
		switch name = strings.TrimSpace(name); {
		case name == "PartitionKey" && !hasPartition:
			a.partition, hasPartition = value, true
		case name == "RowKey" && !hasRow:
			a.row, hasRow = value, true
		default:
			return a, errSyntax
		}
		if rest = strings.TrimSpace(rest); rest == "" {
			break
		}
		if s, ok = strings.CutPrefix(rest, ","); !ok {
			return a, errSyntax
		}
	}
	switch {
	case !hasPartition, strings.Contains(a.partition+a.row, "/"): // Azure splits the path after decoding it
		return a, errSyntax
	case hasRow:
		a.level = onEntity
	default:
		a.level = onPartition
	}
	return a, nil
}

// cutQuoted cuts quoted text off the front of s. A doubled quote in it is one quote.
func cutQuoted(s string) (text, rest string, ok bool) {
	if s == "" || s[0] != '\'' {
		return "", s, false
	}
	for i := 1; i < len(s); i++ {
		if s[i] != '\'' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '\'' {
			i++
			continue
		}
		return strings.ReplaceAll(s[1:i], "''", "'"), s[i+1:], true
	}
	return "", s, false
}
