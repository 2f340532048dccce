package auth

import (
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Versions at which the string to sign of a shared access signature changes, or a field is added.
const (
	sas20120212 wire.Version = 20120212 // the version is signed
	sas20130815 wire.Version = 20130815 // response header overrides, for blobs
	sas20150221 wire.Version = 20150221 // the resource begins with its service
	sas20150405 wire.Version = 20150405 // addresses and protocols; account SAS
	sas20181109 wire.Version = 20181109 // the resource's kind and snapshot time, for blobs; user delegation
	sas20191212 wire.Version = 20191212 // blob versions
	sas20200210 wire.Version = 20200210 // directories; saoid, suoid, scid
	sas20201206 wire.Version = 20201206 // encryption scope
	sas20250705 wire.Version = 20250705 // user delegation for queues, and bound to one user
	sas20260406 wire.Version = 20260406 // signed request headers and query parameters
)

// Token is a shared access signature in a URL. Absent fields are empty.
// https://learn.microsoft.com/rest/api/storageservices/delegate-access-with-shared-access-signature
type Token struct {
	Version     wire.Version // sv
	VersionText string
	Signature   string // sig

	Permissions   string // sp
	Start, Expiry string // st, se
	IP, Protocol  string // sip, spr
	Scope         string // ses

	Services, ResourceTypes string // ss, srt: set in an account SAS

	Policy   string // si: a stored access policy of the resource
	Resource string // sr: b, c, bs, bv or d
	Snapshot string // the snapshot or version that the URL names, which sr=bs and sr=bv sign
	Depth    string // sdd

	TableName              string // tn
	StartPK, StartRK       string // spk, srk
	EndPK, EndRK           string // epk, erk
	hasStartPK, hasStartRK bool
	hasEndPK, hasEndRK     bool
	CacheControl           string // rscc
	ContentDisposition     string // rscd
	ContentEncoding        string // rsce
	ContentLanguage        string // rscl
	ContentType            string // rsct

	// Delegation has the fields of a user delegation SAS; nil for others.
	Delegation *Delegation
}

// Delegation identifies the user delegation key that signed a token, and its owner.
// https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas
type Delegation struct {
	ObjectID, TenantID       string // skoid, sktid: the owner of the key
	KeyStart, KeyExpiry      string // skt, ske
	KeyService, KeyVersion   string // sks, skv
	Authorized, Unauthorized string // saoid, suoid
	Correlation              string // scid
	KeyUserTenant            string // skdutid
	User                     string // sduoid: only with this user's bearer token
	Headers, Parameters      string // srh, srq
}

// AccountSAS reports whether the token is an account SAS.
func (t *Token) AccountSAS() bool { return t.Services != "" || t.ResourceTypes != "" }

// kinds are kinds of tokens, of which each signs other fields.
type kinds uint8

// The kinds: account SAS, and for each service the service SAS and the user delegation SAS. Tables have no user
// delegation.
const (
	ofAccount kinds = 1 << iota
	ofBlobs
	ofBlobUsers
	ofQueues
	ofQueueUsers
	ofTables

	ofServices = ofBlobs | ofQueues | ofTables
	ofUsers    = ofBlobUsers | ofQueueUsers
	ofAll      = ofAccount | ofServices | ofUsers
)

// kind is the kind of the token for a service.
func (t *Token) kind(svc wire.Service) kinds {
	switch user := t.Delegation != nil; {
	case t.AccountSAS():
		return ofAccount
	case svc == wire.Blob && user:
		return ofBlobUsers
	case svc == wire.Blob:
		return ofBlobs
	case svc == wire.Queue && user:
		return ofQueueUsers
	case svc == wire.Queue:
		return ofQueues
	case user:
		return 0
	}
	return ofTables
}

// field returns the field of a query parameter, the first version in which it is signed, and the kinds of tokens that
// sign it; nil for other parameters. A kind that does not sign a field refuses it, since anyone could add it.
//
//   - https://learn.microsoft.com/rest/api/storageservices/create-account-sas#construct-the-signature-string
//   - https://learn.microsoft.com/rest/api/storageservices/create-service-sas#specify-the-signature
//   - https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas#specify-the-signature
func (t *Token) field(name string) (*string, wire.Version, kinds) {
	// The version 0 is of fields that tokens of every version sign.
	switch name {
	case "sig":
		return &t.Signature, 0, ofAll
	case "sv":
		return &t.VersionText, 0, ofAll
	case "sp":
		return &t.Permissions, 0, ofAll
	case "st":
		return &t.Start, 0, ofAll
	case "se":
		return &t.Expiry, 0, ofAll
	case "sip":
		return &t.IP, sas20150405, ofAll
	case "spr":
		return &t.Protocol, sas20150405, ofAll
	case "ses":
		return &t.Scope, sas20201206, ofAccount | ofBlobs | ofBlobUsers
	case "ss":
		return &t.Services, sas20150405, ofAccount
	case "srt":
		return &t.ResourceTypes, sas20150405, ofAccount
	case "si":
		return &t.Policy, 0, ofServices
	case "sr":
		// That of a queue is not signed: it is sr=q, which says what the service does already. Azure.Storage.Queues for .NET
		// sends it.
		return &t.Resource, 0, ofBlobs | ofUsers
	case "sdd":
		return &t.Depth, sas20200210, ofBlobs | ofBlobUsers // by the path of the directory that it counts
	case "tn":
		return &t.TableName, 0, ofTables
	case "spk":
		// An empty key is signed like an absent one, but does not limit in the same way: readToken refuses what could be
		// either.
		t.hasStartPK = true
		return &t.StartPK, 0, ofTables
	case "srk":
		t.hasStartRK = true
		return &t.StartRK, 0, ofTables
	case "epk":
		t.hasEndPK = true
		return &t.EndPK, 0, ofTables
	case "erk":
		t.hasEndRK = true
		return &t.EndRK, 0, ofTables
	// An account SAS does not sign these, and they are without effect in one.
	case "rscc":
		return &t.CacheControl, sas20130815, ofAccount | ofBlobs | ofBlobUsers
	case "rscd":
		return &t.ContentDisposition, sas20130815, ofAccount | ofBlobs | ofBlobUsers
	case "rsce":
		return &t.ContentEncoding, sas20130815, ofAccount | ofBlobs | ofBlobUsers
	case "rscl":
		return &t.ContentLanguage, sas20130815, ofAccount | ofBlobs | ofBlobUsers
	case "rsct":
		return &t.ContentType, sas20130815, ofAccount | ofBlobs | ofBlobUsers
	}
	return nil, 0, 0
}

// field is like [Token.field], for the parameters of user delegation.
func (d *Delegation) field(name string) (*string, wire.Version, kinds) {
	switch name {
	case "skoid":
		return &d.ObjectID, sas20181109, ofUsers
	case "sktid":
		return &d.TenantID, sas20181109, ofUsers
	case "skt":
		return &d.KeyStart, sas20181109, ofUsers
	case "ske":
		return &d.KeyExpiry, sas20181109, ofUsers
	case "sks":
		return &d.KeyService, sas20181109, ofUsers
	case "skv":
		return &d.KeyVersion, sas20181109, ofUsers
	case "saoid":
		return &d.Authorized, sas20200210, ofUsers
	case "suoid":
		return &d.Unauthorized, sas20200210, ofUsers
	case "scid":
		return &d.Correlation, sas20200210, ofUsers
	case "skdutid":
		return &d.KeyUserTenant, sas20250705, ofUsers
	case "sduoid":
		return &d.User, sas20250705, ofUsers
	case "srh":
		return &d.Headers, sas20260406, ofBlobUsers
	case "srq":
		return &d.Parameters, sas20260406, ofBlobUsers
	}
	return nil, 0, 0
}

// readToken reads the token of a request to a service. ok is false for duplicate parameters, an invalid version,
// control characters, row keys without their partition keys, fields that the token's version or its kind does not sign,
// and empty ends of a range: anyone could add or remove these without changing the signature.
func readToken(q wire.Query, svc wire.Service) (t *Token, ok bool) {
	t = new(Token)
	if q.Has("skoid") {
		t.Delegation = new(Delegation)
	}
	delegation := t.Delegation
	// since is the first version that signs all fields of the token, signedBy are the kinds that do. A token of an older
	// version, or of another kind, does not cover them all.
	since, signedBy := wire.Version(0), ofAll
	for i, p := range q {
		field, from, by := t.field(p.Name)
		if field == nil {
			if delegation == nil { // of another kind of token: what it has of user delegation is refused below
				delegation = new(Delegation)
			}
			field, from, by = delegation.field(p.Name)
		}
		if field == nil {
			continue
		}
		// Of two values of a field only one would be signed, and a reader of the query might take the other.
		for _, before := range q[:i] {
			if before.Name == p.Name {
				return t, false
			}
		}
		if !plain(p.Value) {
			return t, false
		}
		// A parameter without a value is signed like an absent one, and has no effect, except for bounds of a range.
		if p.Value != "" || by == ofTables {
			signedBy &= by
		}
		*field, since = p.Value, max(since, from)
	}
	if t.StartRK != "" && !t.hasStartPK || t.EndRK != "" && !t.hasEndPK { // a row key is a bound within a partition
		return t, false
	}
	// An empty start of a range has no effect, an empty end has; but the signature does not distinguish empty and absent
	// parameters.
	if t.hasEndRK && t.EndRK == "" || t.hasEndPK && t.EndPK == "" && t.EndRK == "" {
		return t, false
	}
	if t.VersionText != "" {
		if t.Version, ok = wire.ParseVersion(t.VersionText); !ok {
			return t, false
		}
	}
	return t, t.Version >= since && signedBy&t.kind(svc) != 0 && t.fitsResource(svc)
}

// fitsResource reports whether the fields that go with some kinds of resources alone are with those.
func (t *Token) fitsResource(svc wire.Service) bool {
	return (t.Depth == "" || t.Resource == "d") && (svc != wire.Queue || t.Resource == "" || t.Resource == "q")
}

// plain reports whether s has no control characters, such as the line feeds that separate the fields of a string to
// sign.
func plain(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c < 0x20 || c == 0x7f }) < 0
}

// appendStringToSign appends the text whose HMAC is the signature.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#specify-the-signature
// https://learn.microsoft.com/rest/api/storageservices/create-account-sas#construct-the-signature-string
func (t *Token) appendStringToSign(b []byte, svc wire.Service, account, resource string) []byte {
	v := t.Version
	if t.AccountSAS() {
		b = lines(b, account, t.Permissions, t.Services, t.ResourceTypes, t.Start, t.Expiry, t.IP, t.Protocol, t.VersionText)
		if v >= sas20201206 {
			b = lines(b, t.Scope)
		}
		return b // ends with a line feed
	}
	b = lines(b, t.Permissions, t.Start, t.Expiry, resource, t.Policy)
	if v >= sas20150405 {
		b = lines(b, t.IP, t.Protocol)
	}
	if v >= sas20120212 {
		b = lines(b, t.VersionText)
	}
	switch svc {
	case wire.Table:
		b = lines(b, t.StartPK, t.StartRK, t.EndPK, t.EndRK)
	case wire.Blob:
		if v >= sas20181109 {
			b = lines(b, t.Resource, t.Snapshot)
		}
		if v >= sas20201206 {
			b = lines(b, t.Scope)
		}
		if v >= sas20130815 {
			b = t.overrides(b)
		}
	}
	// Unlike the string of an account SAS, that of a service SAS has no line feed at its end.
	return b[:len(b)-1]
}

func (t *Token) overrides(b []byte) []byte {
	return lines(b, t.CacheControl, t.ContentDisposition, t.ContentEncoding, t.ContentLanguage, t.ContentType)
}

// lines appends each text, followed by a line feed.
func lines(b []byte, texts ...string) []byte {
	for _, s := range texts {
		b = append(append(b, s...), '\n')
	}
	return b
}
