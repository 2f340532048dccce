package tablesvc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server/devissuer"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// batchOf makes the body of a transaction of raw requests.
func batchOf(requests ...string) string {
	var b strings.Builder
	b.WriteString("--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n")
	for _, r := range requests {
		fmt.Fprintf(&b, "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n%s\r\n",
			r)
	}
	b.WriteString("--changeset_1--\r\n--batch_1--\r\n")
	return b.String()
}

// request makes a part of a transaction.
func (f *fixture) request(method, path, header, body string) string {
	return fmt.Sprintf("%s %s%s HTTP/1.1\r\nContent-Type: application/json\r\nAccept: "+
		"application/json;odata=minimalmetadata\r\n%s\r\n%s", method, f.base, path, header, body)
}

// TestBatchRoles: who may send transactions may still do in each part of one only what a role lets them do to that
// part's table, and what is refused leaves no trace.
func TestBatchRoles(t *testing.T) {
	t.Parallel()
	issuer, err := devissuer.New(devissuer.Config{})
	check.OK(t, err)
	const reader, contributor = "Storage Table Data Reader", "Storage Table Data Contributor"
	roles, err := auth.NewRoles(
		auth.Assignment{Principal: "reader", Role: reader, Scope: auth.DevelopmentAccount},
		auth.Assignment{Principal: "writer", Role: contributor, Scope: auth.DevelopmentAccount},
		auth.Assignment{Principal: "clerk", Role: reader, Scope: auth.DevelopmentAccount},
		auth.Assignment{Principal: "clerk", Role: contributor, Scope: auth.DevelopmentAccount + "/people"},
		auth.Assignment{Principal: "guest", Role: reader, Scope: auth.DevelopmentAccount + "/other"},
	)
	check.OK(t, err)
	oauth, err := auth.NewOAuth(roles, issuer.Trust())
	check.OK(t, err)
	f := start(t, func(c *tablehost.Config) { c.OAuth = oauth })
	for _, name := range []string{"people", "other"} {
		add(t, f.table(name), "p", "there", "A", 1)
	}
	entity := "(PartitionKey='p',RowKey='there')"
	const body = `{"A":2}`
	changes := map[string]func(table string) string{
		"insert": func(table string) string {
			return f.request("POST", "/"+table, "", `{"PartitionKey":"p","RowKey":"new"}`)
		},
		"update": func(table string) string { return f.request("PUT", "/"+table+entity, "If-Match: *\r\n", body) },
		"merge": func(table string) string {
			return f.request("MERGE", "/"+table+entity, "If-Match: *\r\n",
				body)
		},
		"patch": func(table string) string {
			return f.request("PATCH", "/"+table+entity, "If-Match: *\r\n",
				body)
		},
		"insert or replace": func(table string) string { return f.request("PUT", "/"+table+entity, "", body) },
		"insert or merge":   func(table string) string { return f.request("PATCH", "/"+table+entity, "", body) },
		"tunnelled merge": func(table string) string {
			return f.request("POST", "/"+table+entity, "X-HTTP-Method: MERGE\r\nIf-Match: *\r\n", body)
		},
		"delete": func(table string) string { return f.request("DELETE", "/"+table+entity, "If-Match: *\r\n", "") },
	}
	send := func(who, body string) reply {
		token, err := issuer.Token(who, auth.StorageAudience)
		check.OK(t, err)
		return f.send("POST", "/$batch",
			headers{"Authorization", "Bearer " + token, "Content-Type", "multipart/mixed; boundary=batch_1"}, body)
	}
	restore := func() {
		for _, table := range []string{"people", "other"} {
			client := f.sdk.NewClient(table)
			_, _ = client.DeleteEntity(ctx, "p", "new", nil)
			_, err := client.UpsertEntity(ctx, entityJSON("p", "there", "A", 1), nil)
			check.OK(t, err)
		}
	}
	const refused = "AuthorizationPermissionMismatch"
	for name, change := range changes {
		for _, tc := range []struct {
			who, table string
			may        bool
		}{
			{"reader", "people", false}, {"clerk", "other", false}, {"guest", "people", false}, {"guest", "other", false},
			{"writer", "other", true}, {"clerk", "people", true}, {"clerk", "PEOPLE", true},
		} {
			restore()
			r := send(tc.who, batchOf(change(tc.table)))
			if may := !strings.Contains(r.body, refused); may != tc.may || may && !strings.Contains(r.body, "HTTP/1.1 20") {
				t.Errorf("%s of %s by %s: %d %s", name, tc.table, tc.who, r.status, r.body)
			}
			if tc.may {
				continue
			}
			if m := read(t, f.sdk.NewClient(tc.table), "p", "there"); m["A"] != 1.0 {
				t.Errorf("%s of %s by %s was refused and left %v", name, tc.table, tc.who, m)
			}
		}
	}
	// A part that is permitted does not carry one that is not: here they would be of two tables, which is refused in any
	// case.
	if r := send("clerk", batchOf(changes["insert"]("people"), changes["insert"]("other"))); !strings.Contains(r.body,
		refused) && !strings.Contains(r.body, "CommandsInBatchActOnDifferentTables") &&
		!strings.Contains(r.body, "InvalidInput") {
		t.Errorf("two tables: %s", r.body)
	}
	restore()
	query := func(table string) string {
		return "--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n" +
			f.request("GET", "/"+table+entity, "", "") + "\r\n--batch_1--\r\n"
	}
	for who, tables := range map[string]map[string]bool{"reader": {"people": true, "other": true},
		"guest": {"people": false, "other": true}} {
		for table, may := range tables {
			if r := send(who, query(table)); strings.Contains(r.body, "HTTP/1.1 200") != may ||
				strings.Contains(r.body, refused) == may {
				t.Errorf("query of %s by %s: %s", table, who, r.body)
			}
		}
	}
	if r := send("nobody", batchOf(changes["insert"]("people"))); r.status != 403 {
		t.Errorf("without a role: %d %s", r.status, r.body)
	}
}
