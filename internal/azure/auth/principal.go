package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Principal is the user, application or group member to whom a bearer token was issued, or who got the user delegation
// key of a SAS.
type Principal struct {
	// ObjectID is the oid claim in lower case: a GUID. A token without one has [ObjectID] of its subject.
	ObjectID string
	// TenantID is the tid claim.
	TenantID string
	// ClientID is the id, appid or azp, of the application that got the token for itself; "" if a user did, or the token
	// has none.
	ClientID string
	// Name is the upn or preferred_username claim, for logs; "" if the token has none.
	Name string

	groups []string // object ids, in lower case
}

// Groups are the object IDs of the groups that the principal is in, in lower case. They must not be changed.
func (p *Principal) Groups() []string { return p.groups }

// groupsOf reads the groups claim: the object IDs of the principal's groups. Group names are ignored, since the creator
// of a group chooses its name, which may be the name of a user. If a principal is in more groups than fit into a token,
// Microsoft Entra ID omits the claim.
// https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference#groups-overage-claim
func groupsOf(claim any) (ids []string) {
	list, _ := claim.([]any)
	for _, v := range list {
		if s, ok := v.(string); ok && isGUID(strings.ToLower(s)) {
			ids = append(ids, strings.ToLower(s))
		}
	}
	return ids
}

// ObjectID returns an object ID for any name: a GUID is unchanged except for lower case; for other names it is a GUID
// derived from their hash. The development issuer uses it, so that an assignment may name the client id in place of the
// oid.
func ObjectID(name string) string {
	if s := strings.ToLower(name); isGUID(s) {
		return s
	}
	sum := sha256.Sum256([]byte("lazuli object id\n" + name))
	sum[6] = sum[6]&0x0f | 0x80 // version 8: custom derivation
	sum[8] = sum[8]&0x3f | 0x80
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func isGUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch dash := i == 8 || i == 13 || i == 18 || i == 23; {
		case dash != (s[i] == '-'):
			return false
		case !dash && (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f'):
			return false
		}
	}
	return true
}
