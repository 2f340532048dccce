package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// MaxDelegation is the maximum lifetime of a user delegation key.
// https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key
const MaxDelegation = 7 * 24 * time.Hour

// UserDelegationKey is a key with which a principal signs SAS tokens in its own name. It is not stored: it is the
// HMAC, under the account's key, of its other fields, so that any front-end can verify its signatures.
type UserDelegationKey struct {
	ObjectID, TenantID string
	Start, Expiry      string // ISO 8601, in seconds
	Service            string // "b" or "q"
	Version            string
	UserTenantID       string // the tenant of users to whom SAS tokens are bound; usually ""
	Value              string // base64
}

// secondsISO is the format of times in user delegation keys, and in skt and ske.
const secondsISO = "2006-01-02T15:04:05Z"

// errOnlyBearer: Get User Delegation Key with an account key or a shared access signature. The text is Azure's.
var errOnlyBearer = failed("Only authentication scheme Bearer is supported")

// NewUserDelegationKey returns the key for the caller of Get User Delegation Key, which must have sent a bearer
// token. The error is [wire.ErrInvalidXMLNodeValue] for invalid times: the key must end after now and after
// its start, and at most [MaxDelegation] after both.
//
// Rotating the account's first key invalidates the user delegation key.
func NewUserDelegationKey(account *Account, id Identity, svc wire.Service, version string, start, expiry, now time.Time,
	userTenant string) (UserDelegationKey, error) {
	if id.Mechanism != Bearer || id.principal == nil {
		return UserDelegationKey{}, errOnlyBearer
	}
	if start.IsZero() {
		start = now
	}
	switch {
	case !expiry.After(start) || !expiry.After(now) || expiry.Sub(now) > MaxDelegation ||
		expiry.Sub(start) > MaxDelegation:
		return UserDelegationKey{}, wire.ErrInvalidXMLNodeValue.With("XmlNodeName", "Expiry").With("XmlNodeValue",
			expiry.UTC().Format(secondsISO)).
			With("Reason", "The key must end after it starts, in the future, and within 7 days.")
	}
	k := UserDelegationKey{ObjectID: id.principal.ObjectID, TenantID: id.principal.TenantID,
		Start:  start.UTC().Format(secondsISO),
		Expiry: expiry.UTC().Format(secondsISO), Service: svc.String()[:1], Version: version, UserTenantID: userTenant}
	k.Value = base64.StdEncoding.EncodeToString(k.derive(account.Name, account.Keys[0]))
	return k, nil
}

// derive computes the value of the key.
func (k *UserDelegationKey) derive(account string, under Key) []byte {
	return under.Sign(nil, lines(nil, "lazuli user delegation key", account, k.ObjectID, k.TenantID, k.Start, k.Expiry,
		k.Service, k.Version, k.UserTenantID))
}

// delegated checks the signature of a user delegation SAS and sets the rights of its signer in the identity.
func (a *Authenticator) delegated(r *wire.Request, account *Account, id *Identity, resource string) error {
	t, d := id.token, id.token.Delegation
	if a.OAuth == nil {
		return failed("User delegation SAS are not accepted: no token issuer is configured.")
	}
	// Queues support it since a later version, tables do not.
	if t.AccountSAS() || r.Service == wire.Table || r.Service == wire.Queue && t.Version < sas20250705 {
		return failed("A user delegation SAS of this version is not for this service.")
	}
	if d.Authorized != "" && d.Unauthorized != "" {
		return failed("A signature is for saoid or for suoid, not for both.")
	}
	if d.Unauthorized != "" && !(r.Service == wire.Blob && account.blob.Hierarchical) {
		return failed("suoid needs a hierarchical namespace.")
	}
	// The key is not stored. It is derived from what the token says about it, so that a token with another owner, other
	// times or another service has another key, and does not match.
	key := UserDelegationKey{ObjectID: d.ObjectID, TenantID: d.TenantID, Start: d.KeyStart, Expiry: d.KeyExpiry,
		Service: d.KeyService, Version: d.KeyVersion, UserTenantID: d.KeyUserTenant}
	headers, parameters := d.signedRequest(r)
	messages := t.delegationStrings(r.Service, resource, headers, parameters)
	if !delegationSigned(account, &key, messages, t.Signature) {
		return failed("Signature did not match. String to sign used was " + string(messages[0]))
	}
	if d.KeyService != r.Service.String()[:1] {
		return ErrAuthorizationServiceMismatch
	}
	// The key has a lifetime of its own; that of the token is checked by sas.
	start, ok1 := wire.ParseISO(d.KeyStart)
	expiry, ok2 := wire.ParseISO(d.KeyExpiry)
	if !ok1 || !ok2 || expiry.Sub(start) > MaxDelegation || r.Now.Before(start) || !r.Now.Before(expiry) {
		return failed("Key not valid in the specified time frame: Start [" + d.KeyStart + "] - Expiry [" + d.KeyExpiry +
			"] - Current [" + wire.FormatRFC1123(r.Now) + "]")
	}
	if d.User != "" {
		if err := a.boundTo(r, d); err != nil {
			return err
		}
	}
	id.principal = &Principal{ObjectID: strings.ToLower(d.ObjectID), TenantID: d.TenantID}
	a.OAuth.resolve(id, r)
	if r.Service == wire.Blob && (d.Authorized != "" || d.Unauthorized != "") &&
		!id.rights.object.meets("", actsForOthers) {
		return wire.ErrAuthorizationPermissionMismatch
	}
	return nil
}

// actsForOthers is the permission that the signer of a token with saoid or suoid needs. The reference: the security
// principal that skoid names "must be assigned an RBAC role that includes runAsSuperUser/action or
// manageOwnership/action", which of the built-in roles the Owner alone has. It also says that one of the two fields may
// be in a token, and that suoid is for accounts with a hierarchical namespace, with an authorization error in others;
// saoid, after which no access control list is asked, is for all.
// https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas#specify-a-signed-object-id-for-a-security-principal
const actsForOthers = "o"

// boundTo checks that a SAS for one user is sent with this user's bearer token. The user belongs to the tenant that the
// key names; without one, to the tenant of the principal that got the key.
func (a *Authenticator) boundTo(r *wire.Request, d *Delegation) error {
	scheme, credential, _ := strings.Cut(r.Header("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return failed("The signature is for one user, whose bearer token must come with it.")
	}
	who, err := a.bearer(r, strings.TrimSpace(credential))
	if err != nil {
		return err
	}
	tenant := d.KeyUserTenant
	if tenant == "" {
		tenant = d.TenantID
	}
	if !strings.EqualFold(who.principal.ObjectID, d.User) || !strings.EqualFold(who.principal.TenantID, tenant) {
		return failed("The bearer token is not of the user that the signature is for.")
	}
	return nil
}

func delegationSigned(account *Account, key *UserDelegationKey, messages [][]byte, signature string) bool {
	sent, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return false
	}
	for _, under := range account.Keys {
		// SDKs sign with the 32 bytes that Value encodes.
		value := key.derive(account.Name, under)
		for _, message := range messages {
			mac := hmac.New(sha256.New, value)
			mac.Write(message)
			if hmac.Equal(mac.Sum(nil), sent) {
				return true
			}
		}
	}
	return false
}

// delegationStrings returns the possible strings to sign of a user delegation SAS. For queues there are two: of the
// official SDKs, some sign saoid, suoid and scid, and some omit these lines.
// https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas#specify-the-signature
func (t *Token) delegationStrings(svc wire.Service, resource, headers, parameters string) [][]byte {
	v, d := t.Version, t.Delegation
	b := lines(make([]byte, 0, 512), t.Permissions, t.Start, t.Expiry, resource,
		d.ObjectID, d.TenantID, d.KeyStart, d.KeyExpiry, d.KeyService, d.KeyVersion)
	if svc == wire.Queue {
		short := append([]byte(nil), b...)
		b = lines(b, d.Authorized, d.Unauthorized, d.Correlation)
		b = lines(b, d.KeyUserTenant, d.User, t.IP, t.Protocol, t.VersionText)
		all := [][]byte{b[:len(b)-1]}
		// Without the three lines a token could have the fields added by anyone, so that the short form is only for tokens
		// without them.
		if d.Authorized == "" && d.Unauthorized == "" && d.Correlation == "" {
			short = lines(short, d.KeyUserTenant, d.User, t.IP, t.Protocol, t.VersionText)
			all = append(all, short[:len(short)-1])
		}
		return all
	}
	if v >= sas20200210 {
		b = lines(b, d.Authorized, d.Unauthorized, d.Correlation)
	}
	if v >= sas20250705 {
		b = lines(b, d.KeyUserTenant, d.User)
	}
	b = lines(b, t.IP, t.Protocol, t.VersionText, t.Resource, t.Snapshot)
	if v >= sas20201206 {
		b = lines(b, t.Scope)
	}
	if v >= sas20260406 {
		b = lines(b, headers, parameters)
	}
	b = t.overrides(b)
	return [][]byte{b[:len(b)-1]}
}

// signedRequest returns the headers and parameters that srh and srq name, in canonical form.
func (d *Delegation) signedRequest(r *wire.Request) (headers, parameters string) {
	var h, p strings.Builder
	if d.Headers != "" {
		for name := range strings.SplitSeq(d.Headers, ",") {
			h.WriteString(name + ":" + r.HTTP.Header.Get(name) + "\n")
		}
	}
	if d.Parameters != "" {
		for name := range strings.SplitSeq(d.Parameters, ",") {
			p.WriteString("\n" + name + ":" + r.Query.Get(strings.ToLower(name)))
		}
	}
	return h.String(), p.String()
}

// keyInfo is the body of Get User Delegation Key.
type keyInfo struct {
	XMLName          xml.Name `xml:"KeyInfo"`
	Start            string
	Expiry           string
	DelegatedUserTid string
}

// maxKeyInfo is the maximum length of that body in bytes.
const maxKeyInfo = 16 << 10

// GetUserDelegationKey serves the operation of that name for the Blob and the Queue service:
//
//	{Name: "GetUserDelegationKey", Method: "POST", Comp: "userdelegationkey", Restype: "service",
//	 Needs: auth.Need{On: auth.OnService, Bearer: auth.DelegationKey}, ...}
//
// https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key
func GetUserDelegationKey(r *wire.Request, id Identity, accounts *Accounts) error {
	var in keyInfo
	if err := r.DecodeXML(maxKeyInfo, &in); err != nil {
		return err
	}
	var start time.Time
	var ok bool
	if in.Start != "" {
		if start, ok = wire.ParseISO(in.Start); !ok {
			return wire.ErrInvalidXMLNodeValue.With("XmlNodeName", "Start").With("XmlNodeValue", in.Start)
		}
	}
	expiry, ok := wire.ParseISO(in.Expiry)
	if !ok || !plain(in.DelegatedUserTid) {
		return wire.ErrInvalidXMLNodeValue.With("XmlNodeName", "Expiry").With("XmlNodeValue", in.Expiry)
	}
	account := accounts.Get(r.Account)
	if account == nil {
		return wire.ErrAuthenticationFailed
	}
	k, err := NewUserDelegationKey(account, id, r.Service, r.VersionHeader, start, expiry, r.Now, in.DelegatedUserTid)
	if err != nil {
		return err
	}
	x := wire.NewXML(1024).Open("UserDelegationKey").Text("SignedOid", k.ObjectID).Text("SignedTid", k.TenantID).
		Text("SignedStart", k.Start).Text("SignedExpiry", k.Expiry).Text("SignedService", k.Service).Text("SignedVersion",
		k.Version)
	if k.UserTenantID != "" {
		x.Text("SignedDelegatedUserTid", k.UserTenantID)
	}
	return r.XML(200, x.Text("Value", k.Value).Close("UserDelegationKey"))
}
