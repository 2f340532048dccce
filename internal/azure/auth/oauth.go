package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/exposure"
)

// StorageAudience is the audience of tokens for every storage account.
const StorageAudience = "https://storage.azure.com"

// SchedulerAudience is the audience of tokens for the Durable Task Scheduler.
const SchedulerAudience = "https://durabletask.io"

// VerifyFor verifies a token for another service than Azure Storage, by its signature, times, issuer and audience.
func (o *OAuth) VerifyFor(ctx context.Context, token, audience string, now time.Time) error {
	t, err := o.verify(ctx, token, now)
	if err == nil && !slices.ContainsFunc(t.audiences,
		func(a string) bool { return strings.TrimSuffix(a, "/") == audience }) {
		err = errAudience
	}
	return err
}

// storageAppID is the application id of Azure Storage, an audience of some tokens.
const storageAppID = "e406a681-f3d4-42a8-90b6-c2b029497af1"

// Issuer is a token issuer that is trusted.
type Issuer struct {
	// ID is the iss claim, compared exactly. Required.
	ID string
	// Keys finds the issuer's signing keys. Required.
	Keys KeySource
	// Audiences are accepted values of the aud claim, besides [StorageAudience] and the account's own address at Azure.
	Audiences []string
	// AuthorizeURL is the address in challenges, "https://login.microsoftonline.com/TENANT/oauth2/authorize": its
	// first path segment is the tenant. "" means ID with /oauth2/authorize.
	AuthorizeURL string
}

// KeySource finds signing keys by their id.
type KeySource interface {
	// Key returns the key with ID kid; "" means the only key, if there is one. The error is [ErrUnknownKey].
	Key(ctx context.Context, kid string, now time.Time) (PublicKey, error)
}

// ErrUnknownKey means that an issuer has no such key.
var ErrUnknownKey = errors.New("the issuer has no such key")

// OAuth verifies bearer tokens and determines the rights of their principals. It is safe for concurrent use.
type OAuth struct {
	issuers []Issuer
	basic   bool // signatures are not verified
	roles   atomic.Pointer[Roles]
	seen    tokenCache
}

// NewOAuth returns an OAuth that trusts the given issuers and assigns roles to their principals.
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

// SetRoles replaces the role assignments. They take effect with the next request.
func (o *OAuth) SetRoles(roles *Roles) { o.roles.Store(roles) }

// Challenge returns the WWW-Authenticate header that names the authority for tokens.
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory#bearer-challenge
func (o *OAuth) Challenge() string {
	is := o.issuers[0]
	url := is.AuthorizeURL
	if url == "" {
		url = strings.TrimSuffix(is.ID, "/") + "/oauth2/authorize"
	}
	return "Bearer authorization_uri=" + url + " resource_id=" + StorageAudience
}

// resolve sets the rights of the identity's principal on the resource that r names.
func (o *OAuth) resolve(id *Identity, r *wire.Request) {
	roles, p, svc, account := o.roles.Load(), id.principal, r.Service, r.Account
	id.scope = func(resource string) rights { return roles.of(p, svc, account, resource) }
	id.rights = id.scope(container(r))
}

// bearer20171109 is the first version that supports bearer tokens. For tables the reference says 2020-12-06, but the
// official table SDKs send 2019-02-02 with their tokens, and Azure accepts them.
const bearer20171109 wire.Version = 20171109

// maxToken is the maximum length of a bearer token in bytes. Tokens of Microsoft Entra ID have less than 8 KiB.
const maxToken = 16 << 10

// bearer authenticates a request by its bearer token.
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory
func (a *Authenticator) bearer(r *wire.Request, token string) (Identity, error) {
	if a.OAuth == nil {
		return Identity{}, failed("Authentication scheme Bearer is not accepted: no token issuer is configured.")
	}
	if r.HTTP.TLS == nil && !exposure.LocalCaller(r.HTTP.RemoteAddr) {
		return Identity{}, failed("Authentication scheme Bearer is not allowed with HTTP. Start the server with --cert " +
			"and --key " +
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

// reason is why a token is invalid, in the words of Azure's AuthenticationErrorDetail. It contains nothing from the
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

// refuse returns the error for an invalid token.
func (o *OAuth) refuse(r *wire.Request, err error) error {
	why := errMalformed
	errors.As(err, &why)
	if r.Version >= wire.V20191212 {
		return ErrInvalidBearerToken.With("AuthenticationErrorDetail", string(why)).WithHeader("WWW-Authenticate",
			o.Challenge())
	}
	return failed(string(why))
}

// verified is a token whose signature, issuer and times are valid.
type verified struct {
	principal *Principal
	audiences []string
	extra     []string // the issuer's further audiences
	clouds    []string // the domains of accounts in the audience
	from, to  time.Time
	checked   time.Time
}

// forAccount reports whether the token's audience is the service of an account.
func (t *verified) forAccount(svc wire.Service, account string) bool {
	for _, aud := range t.audiences {
		aud = strings.TrimSuffix(aud, "/")
		inCloud := func(domain string) bool {
			return aud == "https://"+account+"."+svc.String()+"."+domain || svc == wire.Blob &&
				aud == "https://"+account+".dfs."+domain
		}
		if aud == StorageAudience || aud == storageAppID || slices.ContainsFunc(t.clouds, inCloud) ||
			slices.Contains(t.extra, aud) || slices.Contains(t.extra, aud+"/") {
			return true
		}
	}
	return false
}

// claims are the claims that are read.
type claims struct {
	jwt.RegisteredClaims
	ObjectID string `json:"oid"`
	TenantID string `json:"tid"`
	AppID    string `json:"appid"`
	Azp      string `json:"azp"`
	Scope    any    `json:"scp"` // delegated permissions that a user gave to an application
	// the same, of issuers other than Microsoft Entra ID; some give it to applications as well
	Scopes   any    `json:"scope"`
	Kind     string `json:"idtyp"` // "app" in a token that an application got for itself
	Groups   any    `json:"groups"`
	UPN      string `json:"upn"`
	Username string `json:"preferred_username"`
}

// ofApplication reports whether an application got the token for itself. In a user's token, appid and azp name the
// application that the user happens to use. Unless the issuer says what the token is, its subject must be the
// application: its client id, or its own object id, as Microsoft Entra ID has it, in a token without the scopes that
// users' tokens have. https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference
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

// algorithms are the accepted signing algorithms: only asymmetric ones, so that no public key is used
// as a secret, and not "none".
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// verify verifies a token, or finds it in the cache.
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
		t, err := verifiedOf(&c, &o.issuers[0], now)
		if err == nil {
			t.clouds = clouds
		}
		return t, err
	}
	// The parser fills c before it asks for the key, so that the claimed issuer selects the keys. Until ParseWithClaims
	// has returned, nothing in c is verified.
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
	_, err := jwt.ParseWithClaims(token, &c, find, append(lifetime(now), jwt.WithValidMethods(algorithms))...)
	if err != nil {
		return nil, tokenReason(err)
	}
	// is is set: without a trusted issuer find has failed, and with it the parser.
	return verifiedOf(&c, is, now)
}

// earliest is the time by which an issuer's clock may be ahead. Azure's words for an invalid lifetime are those of
// Microsoft.IdentityModel, whose default it is; the end of a token is exact here.
// https://learn.microsoft.com/dotnet/api/microsoft.identitymodel.tokens.tokenvalidationparameters.defaultclockskew
const earliest = 5 * time.Minute

// lifetime has the checks of a token's times, but for the end, which verifiedOf checks.
func lifetime(now time.Time) []jwt.ParserOption {
	return []jwt.ParserOption{jwt.WithExpirationRequired(), jwt.WithLeeway(earliest),
		jwt.WithTimeFunc(func() time.Time { return now })}
}

// tokenReason returns the reason for an error of package jwt.
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

// verifiedOf converts the claims of an accepted token.
func verifiedOf(c *claims, is *Issuer, now time.Time) (*verified, error) {
	if !now.Before(c.ExpiresAt.Time) {
		return nil, errExpired
	}
	p := &Principal{ObjectID: strings.ToLower(c.ObjectID), TenantID: c.TenantID, ClientID: c.AppID, Name: c.UPN}
	if p.ObjectID == "" {
		p.ObjectID = ObjectID(c.Subject)
	}
	if p.ClientID == "" {
		p.ClientID = c.Azp
	}
	// The token of a user names the application in use, too. Roles that are assigned to the application are not the
	// user's.
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
	t := &verified{principal: p, audiences: c.Audience, extra: is.Audiences, clouds: clouds[:1], to: c.ExpiresAt.Time,
		checked: now}
	if c.NotBefore != nil {
		t.from = c.NotBefore.Add(-earliest)
	}
	return t, nil
}

// tokenCache caches verified tokens by hash, so that a signature is verified once and not for each request.
type tokenCache struct {
	mu sync.RWMutex
	m  map[[sha256.Size]byte]*verified // guarded by mu
}

const (
	// maxRemembered is the maximum number of entries; a full cache is cleared.
	maxRemembered = 4096
	// maxAge is the time after which a signature is verified again with the issuer's current keys.
	maxAge = 5 * time.Minute
)

func (c *tokenCache) get(sum [sha256.Size]byte, now time.Time) *verified {
	c.mu.RLock()
	t := c.m[sum]
	c.mu.RUnlock()
	// A time before the check means that the clock was set back: the age of the entry is then unknown.
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
