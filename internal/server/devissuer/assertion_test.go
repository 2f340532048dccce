package devissuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
)

func TestClientAssertions(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(m jwt.SigningMethod, changes ...any) string {
		c := jwt.MapClaims{"iss": "https://cluster", "sub": "system:serviceaccount:shop:web",
			"aud": []string{"api://AzureADTokenExchange"}, "exp": now.Add(time.Hour).Unix()}
		for i := 0; i+1 < len(changes); i += 2 {
			if c[changes[i].(string)] = changes[i+1]; changes[i+1] == nil {
				delete(c, changes[i].(string))
			}
		}
		var k any = key
		if m == jwt.SigningMethodNone {
			k = jwt.UnsafeAllowNoneSignatureType
		}
		s, err := jwt.NewWithClaims(m, c).SignedString(k)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	es := jwt.SigningMethodES256
	const endpoint = "https://127.0.0.1:10003/" + DefaultTenant + "/oauth2/v2.0/token"
	open, closed := newIssuer(t, Config{Now: func() time.Time { return now }}),
		newIssuer(t, Config{Now: func() time.Time { return now }, Clients: map[string]string{"app": "secret"}})
	for _, tc := range []struct {
		name, kind, assertion string
		i                     *Issuer
		says                  string // "": a token
	}{
		{name: "a workload's", assertion: sign(es)},
		{name: "a workload's in another cloud", assertion: sign(es, "aud", "api://AzureADTokenExchangeUSGov")},
		{name: "by certificate", assertion: sign(es, "iss", "app", "sub", "app", "aud", endpoint)},
		{name: "by the certificate of another", assertion: sign(es, "iss", "other", "sub", "other", "aud", endpoint),
			says: "audience"},
		{name: "for an API", assertion: sign(es, "aud", "https://graph.microsoft.com"), says: "audience"},
		{name: "for nobody", assertion: sign(es, "aud", nil), says: "audience"},
		{name: "expired", assertion: sign(es, "exp", now.Unix()), says: "expired"},
		{name: "without an end", assertion: sign(es, "exp", nil), says: "expired"},
		{name: "early", assertion: sign(es, "nbf", now.Add(time.Hour).Unix()), says: "not yet valid"},
		{name: "by a clock that is ahead", assertion: sign(es, "nbf", now.Add(time.Minute).Unix())},
		{name: "of nobody", assertion: sign(es, "sub", nil), says: "no subject"},
		{name: "unsigned", assertion: sign(jwt.SigningMethodNone), says: "not signed"},
		{name: "without its signature",
			assertion: strings.TrimRight(sign(es), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
			says:      "not signed"},
		{name: "not a token", assertion: "x", says: "not a JWT"},
		{name: "of another kind", kind: "urn:ietf:params:oauth:client-assertion-type:saml2-bearer", assertion: sign(es),
			says: "client_assertion_type"},
		{name: "where clients have secrets", i: closed, assertion: sign(es), says: "configured"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.kind == "" {
				tc.kind = assertionType
			}
			if tc.i == nil {
				tc.i = open
			}
			w := post(tc.i, "/"+DefaultTenant+"/oauth2/v2.0/token",
				url.Values{"grant_type": {"client_credentials"}, "client_id": {"app"},
					"scope":                 {auth.StorageAudience + "/.default"},
					"client_assertion_type": {tc.kind}, "client_assertion": {tc.assertion}})
			if tc.says == "" && (w.Code != http.StatusOK || field(t, w, "access_token") == "") ||
				tc.says != "" && (w.Code != http.StatusUnauthorized || field(t, w, "error") != "invalid_client" ||
					!strings.Contains(field(t, w, "error_description"), tc.says)) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}
