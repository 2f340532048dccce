package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
)

// faultQuery fills in the form of a fault rule for requests like q.
func faultQuery(q *requestlog.Request) url.Values {
	path := strings.TrimPrefix(strings.TrimPrefix(q.Path, "/"+q.Account), "/")
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	return url.Values{"service": {q.Service}, "operation": {q.Operation}, "resource": {path}, "account": {q.Account}}
}

// ownHeaders are the headers that curl sends by itself, or that a new request has other values of.
var ownHeaders = map[string]bool{"authorization": true, "content-length": true, "x-ms-date": true, "date": true,
	"accept-encoding": true, "connection": true, "expect": true,
	"x-ms-client-request-id": true, "x-ms-return-client-request-id": true}

// curl is a shell command that sends the request again, with an account SAS for an hour in place of the signature.
// Without the account's key, and in a read-only dashboard, the signature is left out.
func (d *dashboard) curl(q *requestlog.Request) string {
	scheme, _, _ := strings.Cut(d.Backend().URL(wire.Blob, q.Account), ":")
	address := scheme + "://" + q.Host + q.Path
	query := withoutSignature(q.Query)
	// A read-only dashboard must not hand out a signature that writes.
	if account := d.Accounts.Get(q.Account); !d.ReadOnly && account != nil && len(account.Keys) > 0 &&
		q.Mechanism != auth.Anonymous.String() {
		now := d.Now().UTC()
		svc := map[string]wire.Service{"blob": wire.Blob, "queue": wire.Queue, "table": wire.Table}[q.Service]
		token := auth.Token{VersionText: auth.SASVersion, Services: q.Service[:1], ResourceTypes: "sco",
			// All permissions: the request is to be repeated as it was, and what it needs is not known here. The hour limits
			// what a shared command can do.
			Permissions: "rwdlacuptfi",
			// Five minutes back, as clocks differ.
			Start:  now.Add(-5 * time.Minute).Format("2006-01-02T15:04:05Z"),
			Expiry: now.Add(time.Hour).Format("2006-01-02T15:04:05Z")}
		if sas, err := token.Sign(q.Account, account.Keys[0], svc, ""); err == nil {
			query = strings.Trim(query+"&"+sas, "&")
		}
	}
	if query != "" {
		address += "?" + query
	}
	var out strings.Builder
	out.WriteString("curl -i")
	if q.Method == http.MethodHead {
		out.WriteString(" -I")
	} else if q.Method != http.MethodGet {
		out.WriteString(" -X " + q.Method)
	}
	for _, h := range q.Headers() {
		// Headers that curl computes, and values that were never kept.
		if !ownHeaders[h.Name] && h.Value != "(not shown)" {
			out.WriteString(" \\\n  -H " + quote(h.Name+": "+h.Value))
		}
	}
	if q.Received > 0 {
		out.WriteString(" \\\n  --data-binary @BODY # " + strconv.FormatInt(q.Received, 10) + " bytes, which are not kept")
	} else if q.Method != http.MethodGet && q.Method != http.MethodHead {
		out.WriteString(" \\\n  --data-binary ''")
	}
	text := out.String()
	// The comment must be the end of the line, so the address goes before it.
	if before, body, found := strings.Cut(text, " # "); found {
		return before + " \\\n  " + quote(address) + "   # BODY: " + body
	}
	return text + " \\\n  " + quote(address)
}

// sasParameters are the parameters of a shared access signature.
var sasParameters = strings.Fields(
	"sv sig st se sp sr ss srt sip spr si ses sdd snapshot-sig tn spk srk epk erk rscc rscd rsce rscl rsct skoid sktid " +
		"skt ske sks skv saoid suoid scid sduoid srh srq skdutid")

// withoutSignature is a query string without the parameters of a shared access signature.
func withoutSignature(query string) string {
	var kept []string
	for _, part := range strings.Split(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		if decoded, err := url.QueryUnescape(name); err == nil && part != "" && !contains(sasParameters, decoded) {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

func contains(list []string, name string) bool {
	for _, s := range list {
		if strings.EqualFold(s, name) {
			return true
		}
	}
	return false
}

// quote quotes a word for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
