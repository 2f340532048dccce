package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// StorageAudience is the audience of tokens for every storage account.
const StorageAudience = "https://storage.azure.com"

// storageAppID is the application id of Azure Storage, an audience of some tokens.
const storageAppID = "e406a681-f3d4-42a8-90b6-c2b029497af1"

// Issuer is whose tokens are believed.
type Issuer struct {
	// ID is the iss claim, compared exactly. Required.
	ID string
	// Keys finds the issuer's signing keys. Required.
	Keys KeySource
	// Audiences are further values of the aud claim, beside [StorageAudience] and the account's own address at Azure.
	Audiences []string
	// AuthorizeURL is where challenges send clients, "https://login.microsoftonline.com/TENANT/oauth2/authorize": its
	// first path segment is the tenant. "" is ID with /oauth2/authorize.
	AuthorizeURL string
}

// KeySource finds signing keys by their id.
type KeySource interface {
	// Key returns the key named kid; "" is the only key, if there is but one. It fails with [ErrUnknownKey].
	Key(ctx context.Context, kid string, now time.Time) (PublicKey, error)
}

// ErrUnknownKey means that an issuer has no such key.
var ErrUnknownKey = errors.New("the issuer has no such key")

// OAuth checks bearer tokens and knows what their holders may do. It is safe for concurrent use.
type OAuth struct {
	issuers []Issuer
	basic   bool // signatures are not checked
	roles   atomic.Pointer[Roles]
	seen    tokenCache
}

// NewOAuth trusts the given issuers and gives roles to their principals.
func NewOAuth(roles *Roles, issuers ...Issuer) (*OAuth, error) {
	for i, is := range issuers {
		if is.ID == "" || is.Keys == nil {
			return nil, fmt.Errorf("token issuer %d needs an id and keys", i+1)
		}
		for _, other := range issuers[:i] {
			if other.ID == is.ID {
				return nil, fmt.Errorf("token issuer %s is given twice", is.ID)
			}
		}
	}
	if len(issuers) == 0 {
		return nil, errors.New("no token issuer is given")
	}
	o := &OAuth{issuers: issuers}
	o.SetRoles(roles)
	return o, nil
}

// SetRoles puts other assignments in place. They count from the next request on.
func (o *OAuth) SetRoles(roles *Roles) { o.roles.Store(roles) }

// Challenge is the WWW-Authenticate header that tells a client where to get a token.
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory#bearer-challenge
func (o *OAuth) Challenge() string {
	is := o.issuers[0]
	url := is.AuthorizeURL
	if url == "" {
		url = strings.TrimSuffix(is.ID, "/") + "/oauth2/authorize"
	}
	return "Bearer authorization_uri=" + url + " resource_id=" + StorageAudience
}

// resolve sets what the identity's principal may do with the resource that r names.
func (o *OAuth) resolve(id *Identity, r *wire.Request) {
	roles, p, svc, account := o.roles.Load(), id.principal, r.Service, r.Account
	id.scope = func(resource string) rights { return roles.of(p, svc, account, resource) }
	id.rights = id.scope(container(r))
}

// bearer20171109 is the first version that takes bearer tokens. For tables the reference says 2020-12-06, but the
// official table SDKs send 2019-02-02 with their tokens, and are served.
const bearer20171109 wire.Version = 20171109

// maxToken bounds a bearer token in bytes. Entra's stay under 8 KiB.
const maxToken = 16 << 10

// bearer checks a bearer token.
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory
func (a *Authenticator) bearer(r *wire.Request, token string) (Identity, error) {
	if a.OAuth == nil {
		return Identity{}, failed("Authentication scheme Bearer is not accepted: no token issuer is configured.")
	}
	if r.HTTP.TLS == nil && !local(r.HTTP.RemoteAddr) {
		return Identity{}, failed("Authentication scheme Bearer is not allowed with HTTP. Start the server with --cert and --key " +
			"(lazuli cert makes a pair) and use https, or call it from the same machine by its loopback address.")
	}
	if r.Version < bearer20171109 {
		return Identity{}, failed("Authentication scheme Bearer is not supported in this version.")
	}
	account := a.Accounts.Get(r.Account)
	if account == nil {
		return Identity{}, wire.ErrAuthenticationFailed
	}
	t, err := a.OAuth.verify(r.HTTP.Context(), token, r.Now)
	if err == nil && !t.forAccount(r.Service, r.Account) {
		err = errAudience
	}
	if err != nil {
		return Identity{}, a.OAuth.refuse(r, err)
	}
	id := Identity{Mechanism: Bearer, principal: t.principal}
	a.OAuth.resolve(&id, r)
	return id, nil
}

// local reports whether a connection comes from this machine.
func local(remote string) bool {
	addr, err := netip.ParseAddrPort(remote)
	return err != nil || addr.Addr().Unmap().IsLoopback()
}

// reason is why a token does not hold, in the words of Azure's AuthenticationErrorDetail. It tells nothing of the
// token.
type reason string

func (e reason) Error() string { return string(e) }

const (
	errMalformed reason = "The token cannot be read."
	errSignature reason = "Signature validation failed. Signature verification failed."
	errIssuer    reason = "Issuer validation failed. Issuer did not match."
	errAudience  reason = "Audience validation failed. Audience did not match."
	errExpired   reason = "Lifetime validation failed. The token is expired."
	errEarly     reason = "Lifetime validation failed. The token is not yet valid."
	errKeys      reason = "Signature validation failed. The issuer's keys cannot be read."
)

// refuse is the answer to a token that does not hold.
func (o *OAuth) refuse(r *wire.Request, err error) error {
	why := errMalformed
	errors.As(err, &why)
	if r.Version >= wire.V20191212 {
		return ErrInvalidBearerToken.With("AuthenticationErrorDetail", string(why)).WithHeader("WWW-Authenticate", o.Challenge())
	}
	return failed(string(why))
}

// verified is a token whose signature, issuer and times hold.
type verified struct {
	principal *Principal
	audiences []string
	extra     []string // the issuer's further audiences
	from, to  time.Time
	checked   time.Time
}

// forAccount reports whether the token's audience is an account's service.
func (t *verified) forAccount(svc wire.Service, account string) bool {
	for _, aud := range t.audiences {
		aud = strings.TrimSuffix(aud, "/")
		if aud == StorageAudience || aud == storageAppID || aud == "https://"+account+"."+svc.String()+".core.windows.net" ||
			slices.Contains(t.extra, aud) || slices.Contains(t.extra, aud+"/") {
			return true
		}
	}
	return false
}

// claims are what is read of a token.
type claims struct {
	jwt.RegisteredClaims
	ObjectID string `json:"oid"`
	TenantID string `json:"tid"`
	AppID    string `json:"appid"`
	Azp      string `json:"azp"`
	Scope    any    `json:"scp"`   // what a user lets an application do in their name
	Scopes   any    `json:"scope"` // the same, of issuers other than Microsoft Entra ID; some give it to applications as well
	Kind     string `json:"idtyp"` // "app" in the token that an application got for itself
	Groups   any    `json:"groups"`
	UPN      string `json:"upn"`
	Username string `json:"preferred_username"`
}

// ofApplication reports whether an application got the token for itself. In a user's token, appid and azp name the application that the user
// happens to use. Unless the issuer says what the token is, its subject must be the application: its client id, or its own object id, as
// Microsoft Entra ID has it, in a token without the scopes that users' tokens have.
// https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference
// https://www.rfc-editor.org/rfc/rfc9068#section-2.2
func (c *claims) ofApplication(p *Principal) bool {
	switch {
	case c.Scope != nil:
		return false
	case c.Kind != "":
		return c.Kind == "app"
	case c.Subject == p.ClientID:
		return true
	}
	return c.Scopes == nil && c.ObjectID != "" && strings.EqualFold(c.Subject, c.ObjectID)
}

// algorithms are those with which a token may be signed: asymmetric ones alone, so that no public key is ever taken
// for a secret, and never "none".
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// verify checks a token, or remembers that it did.
func (o *OAuth) verify(ctx context.Context, token string, now time.Time) (*verified, error) {
	if token == "" || len(token) > maxToken {
		return nil, errMalformed
	}
	sum := sha256.Sum256([]byte(token))
	if t := o.seen.get(sum, now); t != nil {
		return t, nil
	}
	t, err := o.parse(ctx, token, now)
	if err == nil {
		o.seen.put(sum, t)
	}
	return t, err
}

func (o *OAuth) parse(ctx context.Context, token string, now time.Time) (*verified, error) {
	var c claims
	var is *Issuer
	if o.basic {
		var err error
		if c, err = unverifiedClaims(token, now); err != nil {
			return nil, err
		}
		return verifiedOf(&c, &o.issuers[0], now)
	}
	find := func(t *jwt.Token) (any, error) {
		for i := range o.issuers {
			if o.issuers[i].ID == c.Issuer {
				is = &o.issuers[i]
			}
		}
		if is == nil {
			return nil, errIssuer
		}
		kid, _ := t.Header["kid"].(string)
		key, err := is.Keys.Key(ctx, kid, now)
		switch {
		case errors.Is(err, ErrUnknownKey):
			return nil, errSignature
		case err != nil:
			return nil, errKeys
		case !key.allows(t.Method.Alg()):
			return nil, errSignature
		}
		return key.Key, nil
	}
	_, err := jwt.ParseWithClaims(token, &c, find, jwt.WithValidMethods(algorithms), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil {
		return nil, tokenReason(err)
	}
	return verifiedOf(&c, is, now)
}

// tokenReason is the reason for an error of package jwt.
func tokenReason(err error) error {
	var why reason
	switch {
	case errors.As(err, &why):
		return why
	case errors.Is(err, jwt.ErrTokenExpired):
		return errExpired
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return errEarly
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return errSignature
	}
	return errMalformed
}

// verifiedOf is what the claims of an accepted token say.
func verifiedOf(c *claims, is *Issuer, now time.Time) (*verified, error) {
	p := &Principal{ObjectID: strings.ToLower(c.ObjectID), TenantID: c.TenantID, ClientID: c.AppID, Name: c.UPN}
	if p.ObjectID == "" {
		p.ObjectID = ObjectID(c.Subject)
	}
	if p.ClientID == "" {
		p.ClientID = c.Azp
	}
	if !c.ofApplication(p) {
		p.ClientID = ""
	}
	p.groups = groupsOf(c.Groups)
	if p.Name == "" {
		p.Name = c.Username
	}
	if !plain(p.ObjectID+p.TenantID) || c.Subject == "" && c.ObjectID == "" {
		return nil, errMalformed
	}
	t := &verified{principal: p, audiences: c.Audience, extra: is.Audiences, to: c.ExpiresAt.Time, checked: now}
	if c.NotBefore != nil {
		t.from = c.NotBefore.Time
	}
	return t, nil
}

// tokenCache remembers verified tokens by their hash, so that a signature is checked once and not for each request.
type tokenCache struct {
	mu sync.RWMutex
	m  map[[sha256.Size]byte]*verified // guarded by mu
}

const (
	// maxRemembered bounds the cache; one that is full is emptied.
	maxRemembered = 4096
	// maxAge is how long a signature is believed without looking at the issuer's keys again.
	maxAge = 5 * time.Minute
)

func (c *tokenCache) get(sum [sha256.Size]byte, now time.Time) *verified {
	c.mu.RLock()
	t := c.m[sum]
	c.mu.RUnlock()
	if t == nil || now.Before(t.from) || !now.Before(t.to) || now.Sub(t.checked) > maxAge || now.Before(t.checked) {
		return nil
	}
	return t
}

func (c *tokenCache) put(sum [sha256.Size]byte, t *verified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxRemembered {
		c.m = make(map[[sha256.Size]byte]*verified)
	}
	c.m[sum] = t
}
