package tablesvc

import (
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestSetTableAcl(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	begin, end := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)
	policy := func(id string) *aztables.SignedIdentifier {
		return &aztables.SignedIdentifier{ID: to.Ptr(id),
			AccessPolicy: &aztables.AccessPolicy{Start: &begin, Expiry: &end, Permission: to.Ptr("raud")}}
	}
	_, err := client.SetAccessPolicy(ctx,
		&aztables.SetAccessPolicyOptions{TableACL: []*aztables.SignedIdentifier{policy("one"), policy("two")}})
	check.OK(t, err)
	r, err := client.GetAccessPolicy(ctx, nil)
	check.OK(t, err)
	if len(r.SignedIdentifiers) != 2 || *r.SignedIdentifiers[1].ID != "two" ||
		!r.SignedIdentifiers[0].AccessPolicy.Expiry.Equal(end) {
		t.Errorf("got %d policies", len(r.SignedIdentifiers))
	}
	f.send("PUT", "/people?comp=acl", headers{"Content-Type", "application/xml"}, "<SignedIdentifiers>").want(t,
		"400 InvalidXmlDocument")
	f.send("PUT", "/people?comp=acl", nil,
		"<SignedIdentifiers>"+strings.Repeat("<SignedIdentifier><Id>x</Id></SignedIdentifier>", 6)+
			"</SignedIdentifiers>").want(t, "400 InvalidXmlDocument")
	f.send("PUT", "/nothere?comp=acl", nil, "").want(t, "404 TableNotFound")
	if r := f.send("GET", "/people?comp=acl", nil, ""); !strings.Contains(r.body, "<Id>one</Id>") {
		t.Errorf("a refused document changed the policies: %s", r.body)
	}
	_, err = client.SetAccessPolicy(ctx, nil)
	check.OK(t, err)
	if r := f.send("GET", "/people?comp=acl", nil, ""); !strings.HasSuffix(r.body, "<SignedIdentifiers />") {
		t.Errorf("no policies are %s", r.body)
	}
}

func TestGetTableAcl(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("people")
	body :=
		"<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Expiry>2036-01-01</Expiry><Permission>r</Permission></AccessPolicy>" +
			"</SignedIdentifier><SignedIdentifier><Id>b</Id></SignedIdentifier></SignedIdentifiers>"
	f.send("PUT", "/people?comp=acl", nil, body).want(t, "204")
	want := "\ufeff<?xml version=\"1.0\" encoding=\"utf-8\"?>" +
		strings.Replace(body, "2036-01-01", "2036-01-01T00:00:00.0000000Z", 1)
	if r := f.send("GET", "/people?comp=acl", nil, "").want(t, "200"); r.body != want {
		t.Errorf("got  %s\nwant %s", r.body, want)
	}
	f.send("GET", "/nothere?comp=acl", nil, "").want(t, "404 TableNotFound")
}

// TestSharedAccess: what a table's own signature allows, with and without a stored policy, and within its key range.
func TestSharedAccess(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	f.table("others")
	for _, p := range []string{"a", "b", "c"} {
		_, err := client.AddEntity(ctx, entityJSON(p, "1"), nil)
		check.OK(t, err)
	}
	cred, err := aztables.NewSharedKeyCredential("devstoreaccount1", devKey)
	check.OK(t, err)
	token := func(v aztables.SASSignatureValues) string {
		v.ExpiryTime = time.Now().Add(time.Hour)
		v.TableName = "people"
		s, err := v.Sign(cred)
		check.OK(t, err)
		return s
	}
	send := func(method, path, sas, body string) reply {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		return f.send(method, path+sep+sas, headers{"Authorization", ""}, body)
	}
	read := token(aztables.SASSignatureValues{Permissions: "r"})
	send("GET", "/people()", read, "").want(t, "200")
	send("GET", "/people(PartitionKey='a',RowKey='1')", read, "").want(t, "200")
	send("POST", "/people", read, string(entityJSON("x", "1"))).want(t, "403 AuthorizationPermissionMismatch")
	send("GET", "/others()", read, "").want(t, "403 AuthenticationFailed")

	ranged := token(aztables.SASSignatureValues{Permissions: "raud", StartPartitionKey: "b", StartRowKey: "",
		EndPartitionKey: "b", EndRowKey: "5"}) +
		"&spk=b&srk=&epk=b&erk=5" // which the SDK signs and leaves out
	if r := send("GET", "/people()?$select=PartitionKey", ranged, "").want(t,
		"200"); r.body != `{"value":[{"PartitionKey":"b"}]}` {
		t.Errorf("the range holds %s", r.body)
	}
	send("GET", "/people(PartitionKey='b',RowKey='1')", ranged, "").want(t, "200")
	send("GET", "/people(PartitionKey='a',RowKey='1')", ranged, "").want(t, "403 AuthorizationPermissionMismatch")
	send("POST", "/people", ranged, string(entityJSON("b", "9"))).want(t, "403 AuthorizationPermissionMismatch")
	send("POST", "/people", ranged, string(entityJSON("b", "4"))).want(t, "201")
	send("POST", "/people", ranged, string(entityJSON("b", "5"))).want(t, "201")
	f.send("POST", "/people", nil, string(entityJSON("b", "50"))).want(t, "201")
	if r := send("GET", "/people()?$select=RowKey", ranged, "").want(t,
		"200"); r.body != `{"value":[{"RowKey":"1"},{"RowKey":"4"},{"RowKey":"5"}]}` {
		t.Errorf("the range, both ends included, holds %s", r.body)
	}
	f.send("DELETE", "/people(PartitionKey='c',RowKey='1')?"+ranged, headers{"Authorization", "", "If-Match", "*"},
		"").want(t, "403 AuthorizationPermissionMismatch")

	// A transaction's own path names no table: its parts are held against the signature.
	batch := func(sas, table, partition string) string {
		body := "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\r\nPUT /" +
			table + "(PartitionKey='" +
			partition + "',RowKey='3') HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{}\r\n--c--\r\n--b--\r\n"
		return f.send("POST", "/$batch?"+sas, headers{"Authorization", "", "Content-Type", "multipart/mixed; boundary=b"},
			body).body
	}
	for _, tc := range []struct{ name, sas, table, partition, want string }{
		{"allowed", ranged, "people", "b", "HTTP/1.1 204"},
		{"outside of the range", ranged, "people", "c", "AuthorizationPermissionMismatch"},
		{"other table", ranged, "others", "b", "AuthorizationFailure"},
		{"no write permission", read, "people", "b", "AuthorizationPermissionMismatch"},
	} {
		if got := batch(tc.sas, tc.table, tc.partition); !strings.Contains(got, tc.want) {
			t.Errorf("transaction, %s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}
