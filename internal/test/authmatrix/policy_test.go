package authmatrix

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A token that names a stored access policy is worth what the policy says, for every operation that a token of its
// resource may call, wherever the request names the resource: in its path, or in the parts of its body.
func TestStoredPolicies(t *testing.T) {
	h := build(t)
	resources := map[wire.Service]string{wire.Blob: "box", wire.DataLake: "box", wire.Queue: "line", wire.Table: "Tab"}
	create := map[wire.Service][3]string{wire.Blob: {"PUT", "/box?restype=container", ""},
		wire.Queue: {"PUT", "/line", ""}, wire.Table: {"POST", "/Tables", `{"TableName":"Tab"}`}}
	acl := map[wire.Service]string{wire.Blob: "/box?restype=container&comp=acl", wire.Queue: "/line?comp=acl",
		wire.Table: "/Tab?comp=acl"}
	// What a resource of a service permits; a policy cannot have letters of other services.
	permitted := map[wire.Service]string{wire.Blob: "racwdxltmei", wire.Queue: "raup", wire.Table: "raud"}
	sign := func(svc wire.Service, policy string) string {
		q, err := auth.Token{Policy: policy}.Sign(account, h.key, of(svc), resources[svc])
		check.OK(t, err)
		return q
	}
	prepare := func(t *testing.T, endpoint wire.Service) {
		svc := of(endpoint)
		c := create[svc]
		h.send(svc, c[0], "/"+account+c[1], c[2], "Content-Type", "application/json")
		policy := func(id, letters string) string {
			return "<SignedIdentifier><Id>" + id + "</Id><AccessPolicy><Start></Start><Expiry>2099-01-01</Expiry><Permission>" +
				letters + "</Permission></AccessPolicy></SignedIdentifier>"
		}
		w := h.send(svc, "PUT", "/"+account+acl[svc], `<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers>`+
			policy("all", permitted[svc])+policy("read", "r")+"</SignedIdentifiers>")
		if w.Code/100 != 2 {
			t.Fatalf("%s: the policies: %d %s", svc, w.Code, w.Body)
		}
	}
	each(t, func(t *testing.T, svc wire.Service, row frontend.Row, r rule) {
		wanted := r.service
		if wanted == "=" {
			wanted = r.account
		}
		name := label(svc, row) + ", a policy"
		for policy, letters := range map[string]string{"all": permitted[of(svc)], "read": "r"} {
			prepare(t, svc) // the operation before may have deleted the resource
			expect(t, name+" with "+letters, h.ask(t, svc, request(t, svc, row, account, sign(svc, policy))),
				allowed(letters, wanted, r.all) || r.public == "*")
		}
		expect(t, name+" that is none", h.ask(t, svc, request(t, svc, row, account, sign(svc, "none"))), r.public == "*",
			"AuthenticationFailed")
	})

	// The parts of a transaction are checked by the policy as well.
	prepare(t, wire.Table)
	transaction := func(policy, table string) *httptest.ResponseRecorder {
		q := sign(wire.Table, policy)
		body := strings.ReplaceAll("--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: application/http\n"+
			"Content-Transfer-Encoding: binary\n\nPOST http://127.0.0.1:10002/"+account+"/"+table+"?"+q+
			" HTTP/1.1\nContent-Type: application/json\nAccept: application/json;odata=minimalmetadata\n\n"+
			`{"PartitionKey":"p","RowKey":"`+policy+`"}`+"\n--c--\n--b--\n", "\n", "\r\n")
		hr := httptest.NewRequest("POST", "http://127.0.0.1:10002/"+account+"/$batch?"+q, strings.NewReader(body))
		hr.Header.Set("Content-Type", "multipart/mixed; boundary=b")
		hr.Header.Set("x-ms-version", version)
		w := httptest.NewRecorder()
		h.handlers[wire.Table].ServeHTTP(w, hr)
		return w
	}
	if w := transaction("all", "Tab"); w.Code != 202 || !strings.Contains(w.Body.String(), "HTTP/1.1 201 Created") {
		t.Errorf("a transaction by a policy: %d %s", w.Code, w.Body)
	}
	for _, tt := range [][2]string{{"read", "Tab"}, {"all", "Tab2"}} {
		if w := transaction(tt[0], tt[1]); strings.Contains(w.Body.String(), "201 Created") || w.Code != 403 &&
			!strings.Contains(w.Body.String(), "HTTP/1.1 403") {
			t.Errorf("a transaction on %s by the policy %s: %d %s", tt[1], tt[0], w.Code, w.Body)
		}
	}
}
