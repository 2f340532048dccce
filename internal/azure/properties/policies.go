package properties

import (
	"encoding/json"
	"encoding/xml"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Limits of stored access policies.
const (
	maxPolicies      = 5
	maxPolicyID      = 64 // characters
	maxPermissions   = 32
	MaxPoliciesBytes = 64 << 10 // of the body of a Set ACL operation
)

// StoredPolicy is a stored access policy of a container, queue or table. Times have the form [wire.ISO7], or are "".
// https://learn.microsoft.com/rest/api/storageservices/define-stored-access-policy
type StoredPolicy struct {
	ID string `json:"id"`
	auth.Policy
	// Bare is set for an identifier without a policy element, which is returned as it was sent.
	Bare bool `json:"bare,omitempty"`
}

// CheckPolicies returns an error if value is not a list of [StoredPolicy] as JSON, the form in which queues and tables
// keep theirs.
func CheckPolicies(value []byte) error { return json.Unmarshal(value, new([]StoredPolicy)) }

// ParsePolicies parses the SignedIdentifiers document of a Set ACL operation. An empty body means no policies. letters
// are the permissions that the resource supports. It fails with [wire.ErrInvalidXMLDocument].
func ParsePolicies(body []byte, letters string) ([]StoredPolicy, error) {
	if len(strings.TrimSpace(string(body))) == 0 {
		return nil, nil
	}
	var d struct {
		XMLName          xml.Name `xml:"SignedIdentifiers"`
		SignedIdentifier []struct {
			ID           string `xml:"Id"`
			AccessPolicy *struct{ Start, Expiry, Permission string }
		}
	}
	if err := wire.ParseXML(body, &d); err != nil {
		return nil, err
	}
	if len(d.SignedIdentifier) > maxPolicies {
		return nil, wire.ErrInvalidXMLDocument
	}
	var list []StoredPolicy
	seen := make(map[string]bool)
	for _, s := range d.SignedIdentifier {
		if s.ID == "" || utf8.RuneCountInString(s.ID) > maxPolicyID || seen[s.ID] {
			return nil, wire.ErrInvalidXMLDocument
		}
		seen[s.ID] = true
		// An identifier without a policy is kept, and Get ACL returns it without one.
		p := StoredPolicy{ID: s.ID, Bare: true}
		if a := s.AccessPolicy; a != nil && (a.Start != "" || a.Expiry != "" || a.Permission != "") {
			var ok1, ok2 bool
			p.Start, ok1 = policyTime(a.Start)
			p.Expiry, ok2 = policyTime(a.Expiry)
			p.Permissions, p.Bare = a.Permission, false
			if !ok1 || !ok2 || len(a.Permission) > maxPermissions || strings.Trim(a.Permission, letters) != "" {
				return nil, wire.ErrInvalidXMLDocument
			}
		}
		list = append(list, p)
	}
	return list, nil
}

func policyTime(s string) (string, bool) {
	if s == "" {
		return "", true
	}
	t, ok := wire.ParseISO(strings.TrimSpace(s))
	return wire.FormatISO7(t), ok
}

// PoliciesXML returns the answer of a Get ACL operation.
func PoliciesXML(list []StoredPolicy) *wire.XML {
	x := wire.NewXML(512)
	if len(list) == 0 {
		return x.Empty("SignedIdentifiers")
	}
	x.Open("SignedIdentifiers")
	for _, p := range list {
		x.Open("SignedIdentifier").Text("Id", p.ID)
		if !p.Bare {
			x.Open("AccessPolicy")
			for _, e := range [][2]string{{"Start", p.Start}, {"Expiry", p.Expiry}, {"Permission", p.Permissions}} {
				if e[1] != "" {
					x.Text(e[0], e[1])
				}
			}
			x.Close("AccessPolicy")
		}
		x.Close("SignedIdentifier")
	}
	return x.Close("SignedIdentifiers")
}

// FindPolicy returns the policy with an id.
func FindPolicy(list []StoredPolicy, id string) (auth.Policy, bool) {
	for _, p := range list {
		if p.ID == id {
			return p.Policy, true
		}
	}
	return auth.Policy{}, false
}
