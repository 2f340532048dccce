package devissuer

import (
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// maxForm bounds the body of a token request in bytes.
const maxForm = 64 << 10

// ServeHTTP answers under any prefix that was stripped before. Tenants in paths are not compared: there is one.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Trim(r.URL.Path, "/")
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case strings.HasSuffix(path, ".well-known/openid-configuration"):
		i.configuration(w, r)
	case strings.HasSuffix(path, "discovery/v2.0/keys"), strings.HasSuffix(path, "discovery/keys"), path == "keys":
		if only(w, r, http.MethodGet) {
			answer(w, http.StatusOK, map[string]any{"keys": []any{i.jwk()}})
		}
	case path == "metadata/identity/oauth2/token":
		i.managedIdentity(w, r, "Metadata")
	case path == "msi/token":
		i.managedIdentity(w, r, "X-Identity-Header")
	case path == "token", strings.HasSuffix(path, "oauth2/v2.0/token"), strings.HasSuffix(path, "oauth2/token"):
		i.clientCredentials(w, r)
	default:
		refuse(w, http.StatusNotFound, "invalid_request",
			"There is nothing at this address. Token requests go to /"+i.config.Tenant+"/oauth2/v2.0/token.")
	}
}

// configuration is the OpenID discovery document.
func (i *Issuer) configuration(w http.ResponseWriter, r *http.Request) {
	if !only(w, r, http.MethodGet) {
		return
	}
	base := i.config.URL
	if base == "" {
		scheme := "http://"
		if r.TLS != nil {
			scheme = "https://"
		}
		// RequestURI still has the prefix under which the handler is mounted.
		prefix := ""
		if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
			prefix = strings.TrimSuffix(strings.TrimSuffix(u.Path, strings.TrimPrefix(r.URL.Path, "/")), "/")
		}
		base = scheme + r.Host + prefix
	}
	base += "/" + i.config.Tenant
	issuer := i.id
	// libraries compare the host with the one that they asked; the tokens have their fixed name for this process
	if i.config.URL == "" {
		issuer = base + "/v2.0"
	}
	answer(w, http.StatusOK, map[string]any{
		"issuer":                                issuer,
		"authorization_endpoint":                base + "/oauth2/v2.0/authorize",
		"token_endpoint":                        base + "/oauth2/v2.0/token",
		"jwks_uri":                              base + "/discovery/v2.0/keys",
		"response_types_supported":              []string{"token"},
		"grant_types_supported":                 []string{"client_credentials"},
		"subject_types_supported":               []string{"pairwise"},
		"id_token_signing_alg_values_supported": []string{"ES256"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_post", "client_secret_basic", "private_key_jwt"},
		"scopes_supported":                      []string{auth.StorageAudience + "/.default"},
		"claims_supported": []string{"sub", "iss", "aud", "exp", "iat", "nbf", "oid", "tid", "appid",
			"groups"},
	})
}

// clientCredentials is the token request of an application.
func (i *Issuer) clientCredentials(w http.ResponseWriter, r *http.Request) {
	if !only(w, r, http.MethodPost) {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", "The request body is not a form, or is too large.")
		return
	}
	f := r.PostForm // never the query string, which ends up in logs
	if grant := f.Get("grant_type"); grant != "client_credentials" {
		refuse(w, http.StatusBadRequest, "unsupported_grant_type", "Only grant_type=client_credentials is implemented.")
		return
	}
	client, secret := f.Get("client_id"), f.Get("client_secret")
	if user, password, ok := r.BasicAuth(); ok && client == "" {
		client, secret = user, password
	}
	if assertion := f.Get("client_assertion"); assertion != "" {
		why := assertionFault(f.Get("client_assertion_type"), assertion, client, i.config.Now())
		if i.config.Clients != nil {
			why = "Client assertions are not taken where clients are configured: they have secrets."
		}
		if why != "" {
			refuse(w, http.StatusUnauthorized, "invalid_client", why)
			return
		}
	}
	if client == "" || !i.knows(client, secret) {
		refuse(w, http.StatusUnauthorized, "invalid_client", "The client id or its secret is wrong.")
		return
	}
	audience, ok := audienceOf(f.Get("scope"), f.Get("resource"))
	if !ok {
		refuse(w, http.StatusBadRequest, "invalid_scope",
			"The scope must be "+auth.StorageAudience+"/.default, or a storage account's own address.")
		return
	}
	i.grant(w, client, audience)
}

// managedIdentity is the token request of an application that runs on Azure. The header keeps requests out that a
// browser or a forged link could make.
// https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token
func (i *Issuer) managedIdentity(w http.ResponseWriter, r *http.Request, header string) {
	if !only(w, r, http.MethodGet) {
		return
	}
	if r.Header.Get(header) == "" {
		refuse(w, http.StatusBadRequest, "invalid_request", "Required metadata header not specified.")
		return
	}
	q := r.URL.Query()
	audience, ok := audienceOf("", q.Get("resource"))
	if !ok {
		refuse(w, http.StatusBadRequest, "invalid_resource", "The resource must be "+auth.StorageAudience+".")
		return
	}
	client := q.Get("client_id")
	if client == "" {
		client = q.Get("object_id")
	}
	if client == "" {
		client = DefaultClient
	}
	if i.config.Clients != nil {
		if _, ok := i.config.Clients[client]; !ok {
			refuse(w, http.StatusBadRequest, "invalid_request", "Identity not found.")
			return
		}
	}
	i.grant(w, client, audience)
}

func (i *Issuer) knows(client, secret string) bool {
	if i.config.Clients == nil {
		return len(client) <= 256
	}
	want, ok := i.config.Clients[client]
	return subtle.ConstantTimeCompare([]byte(want), []byte(secret)) == 1 && ok
}

// accountAudience is one account's service at Azure.
var accountAudience = lazyregexp.New(`^https://[a-z0-9]{3,24}\.(blob|queue|table)\.core\.windows\.net/?$`)

// audienceOf turns a scope (RESOURCE/.default) or a resource into an audience. Some libraries add the scopes of a
// user's sign-in, which mean nothing here.
func audienceOf(scope, resource string) (string, bool) {
	for s := range strings.FieldsSeq(scope) {
		switch s {
		case "openid", "profile", "offline_access":
			continue
		}
		if resource != "" {
			return "", false
		}
		resource, _ = strings.CutSuffix(s, "/.default")
	}
	switch strings.TrimSuffix(resource, "/") {
	case auth.StorageAudience, auth.SchedulerAudience:
		return resource, true
	}
	return resource, accountAudience().MatchString(resource)
}

// grant answers with a token, in the fields of all the flows.
func (i *Issuer) grant(w http.ResponseWriter, client, audience string) {
	token, err := i.Token(client, audience)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error", "The token could not be signed.")
		return
	}
	seconds := int64(i.config.Lifetime.Seconds())
	now := i.config.Now().Unix()
	answer(w, http.StatusOK, map[string]any{"token_type": "Bearer", "access_token": token, "resource": audience,
		"client_id":  client,
		"expires_in": seconds, "ext_expires_in": seconds,
		"expires_on": strconv.FormatInt(now+seconds, 10), "not_before": strconv.FormatInt(now, 10)})
}

func only(w http.ResponseWriter, r *http.Request, method string) bool {
	if r.Method == method || r.Method == http.MethodHead && method == http.MethodGet {
		return true
	}
	w.Header().Set("Allow", method)
	refuse(w, http.StatusMethodNotAllowed, "invalid_request", "The method must be "+method+".")
	return false
}

// refuse answers with an OAuth error (RFC 6749, section 5.2).
func refuse(w http.ResponseWriter, status int, code, why string) {
	answer(w, status, map[string]any{"error": code, "error_description": why})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has disconnected
}
