package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Principal is who a bearer token was issued to, or who got the user delegation key that a SAS is signed with.
type Principal struct {
	// ObjectID is the oid claim in lower case: a GUID. A token without one has [ObjectID] of its subject.
	ObjectID string
	// TenantID is the tid claim.
	TenantID string
	// ClientID is the id, appid or azp, of the application that got the token for itself; "" if a user did, or the token has none.
	ClientID string
	// Name is the upn or preferred_username claim, for logs; "" if the token has none.
	Name string

	groups []string // object ids, in lower case
}

// groupsOf reads the groups claim: the object ids of the groups that the token's holder is in. Names are passed over, since whoever makes
// groups chooses them, and one may be that of a user. Of a holder who is in more groups than a token has room for, Microsoft Entra ID
// leaves the claim out.
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

// ObjectID makes an object id of any name: a GUID stays itself, in lower case, and other names get a GUID made from
// their hash. The development issuer uses it, so that an assignment may name the client id in place of the oid.
func ObjectID(name string) string {
	if s := strings.ToLower(name); isGUID(s) {
		return s
	}
	sum := sha256.Sum256([]byte("lazuli object id\n" + name))
	sum[6] = sum[6]&0x0f | 0x80 // version 8: made by a rule of our own
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
