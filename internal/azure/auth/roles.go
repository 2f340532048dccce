package auth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// letters is a set of SAS permission letters, a to z.
type letters uint32

func lettersOf(s string) (l letters) {
	for i := range len(s) {
		if s[i] >= 'a' && s[i] <= 'z' {
			l |= 1 << (s[i] - 'a')
		}
	}
	return l
}

// meets reports whether l has at least one letter of any, if any is not empty, and every letter of all.
func (l letters) meets(any, all string) bool {
	a := lettersOf(all)
	return l&a == a && (any == "" || l&lettersOf(any) != 0)
}

// rights hold what roles permit on one resource, as SAS permission letters.
type rights struct {
	service, container, object letters
	// delegate permits getting user delegation keys; policy reading and writing stored access policies; parts sending
	// batches; manage the properties and statistics of the service.
	delegate, policy, parts, manage bool
}

func (r *rights) add(o rights) {
	r.service |= o.service
	r.container |= o.container
	r.object |= o.object
	r.delegate = r.delegate || o.delegate
	r.policy = r.policy || o.policy
	r.parts = r.parts || o.parts
	r.manage = r.manage || o.manage
}

// permit reports whether the rights satisfy a need.
func (r rights) permit(n Need) bool {
	switch n.Bearer {
	case DelegationKey:
		return r.delegate
	case AccessPolicy:
		return r.policy
	case Parts:
		return r.parts
	case Management:
		return r.manage
	}
	if n.Any == "" && n.All == "" {
		return false
	}
	l := r.object
	switch n.On {
	case OnService:
		l = r.service
	case OnContainer:
		l = r.container
	}
	return l.meets(n.Any, n.All)
}

// role is a built-in role of Azure: its rights in one service.
type role struct {
	name                       string
	service                    wire.Service
	onService, onContainer, on string
	delegate, policy           bool
	manage                     bool
}

// manager is the role of those who manage an account. It has no right to data.
const manager = "Storage Account Contributor"

// roles are the built-in data roles, and the [manager]'s in each service. The letters follow the data actions of each
// role's definition and the action that each operation needs: "add" is a, "process" p, "filter" f, "tags" t,
// "deleteBlobVersion" x, "immutableStorage/runAsSuperUser" i. The manager has each action below
// Microsoft.Storage/storageAccounts, which are those on services, containers, queues and tables, and no data action:
// listing blobs is one.
// https://learn.microsoft.com/azure/role-based-access-control/built-in-roles/storage
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory#permissions-for-calling-data-operations
var roles = []role{
	{"Storage Blob Data Reader", wire.Blob, "l", "rl", "rl", true, false, false},
	{"Storage Blob Data Contributor", wire.Blob, "l", "rlwcd", "rlawcdme", true, false, false},
	{"Storage Blob Data Owner", wire.Blob, "lf", "rlwcdfxt", "rlawcdxytfmeopi", true, true, false},
	{"Storage Blob Delegator", wire.Blob, "", "", "", true, false, false},
	{"Storage Queue Data Reader", wire.Queue, "l", "rl", "r", true, false, false},
	{"Storage Queue Data Contributor", wire.Queue, "l", "rlwcd", "rlawudp", true, false, false},
	{"Storage Queue Data Message Processor", wire.Queue, "", "", "rp", true, false, false},
	{"Storage Queue Data Message Sender", wire.Queue, "", "", "a", true, false, false},
	{"Storage Table Data Reader", wire.Table, "l", "rl", "rl", false, false, false},
	{"Storage Table Data Contributor", wire.Table, "l", "rlwcd", "rlawcud", false, false, false},
	{manager, wire.Blob, "l", "rwcd", "", true, true, true},
	{manager, wire.Queue, "l", "rwcd", "", true, true, true},
	{manager, wire.Table, "l", "lwcd", "", false, true, true},
}

// RoleNames lists the roles that an [Assignment] may name.
func RoleNames() []string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = r.name
	}
	return slices.Compact(names) // a role of several services has its rows one after the other
}

// Assignment gives a principal a role on a scope.
type Assignment struct {
	// Principal is the object id (oid) or the application id (appid, azp) of a token, the object id of a group in its
	// groups claim, or a name from which the development issuer derives an object ID; "*" is any valid token. A user
	// delegation SAS represents an object ID only: a role assigned to an application ID or a group does not permit getting
	// a user delegation key.
	Principal string
	// Role is the name of a built-in role, such as "Storage Blob Data Reader"; [RoleNames] lists them.
	Role string
	// Scope is "account" or "account/name", where name is a container, queue or table, depending on the role. "*" is
	// every account.
	Scope string
}

// Roles is an immutable set of assignments. Nil permits nothing.
type Roles struct{ list []assignment }

type assignment struct {
	principal, object string // as given, and as an object ID
	service           wire.Service
	account, resource string
	rights            rights
}

// NewRoles returns a set of assignments. Errors: unknown roles and invalid scopes.
func NewRoles(list ...Assignment) (*Roles, error) {
	set := new(Roles)
	for _, a := range list {
		found := findRole(a.Role)
		if len(found) == 0 {
			return nil, fmt.Errorf("role %q is not known; known are %s", a.Role, strings.Join(RoleNames(), ", "))
		}
		if a.Principal == "" {
			return nil, fmt.Errorf("an assignment of %s has no principal", found[0].name)
		}
		account, resource, _ := strings.Cut(strings.Trim(a.Scope, "/"), "/")
		if account != "*" && !wire.AccountName(account) || strings.Contains(resource, "/") {
			return nil, fmt.Errorf("scope %q is not of the form account or account/name", a.Scope)
		}
		for _, r := range found {
			set.list = append(set.list, r.assign(a.Principal, account, resource))
		}
	}
	return set, nil
}

// assign gives the role to a principal on a resource of an account, or on the account if resource is "".
func (r role) assign(principal, account, resource string) assignment {
	if r.service == wire.Table { // whose names are case-insensitive
		resource = strings.ToLower(resource)
	}
	as := assignment{principal: principal, object: ObjectID(principal), service: r.service, account: account,
		resource: resource, rights: rights{object: lettersOf(r.on), container: lettersOf(r.onContainer), policy: r.policy}}
	// Rights on the service itself, such as to list its containers, come with a role on the whole account alone.
	if resource == "" {
		as.rights.service, as.rights.delegate, as.rights.manage = lettersOf(r.onService), r.delegate, r.manage
	}
	return as
}

// DevelopmentRoles permits any valid token all operations in the development account, whose key is
// public anyway.
func DevelopmentRoles() *Roles {
	var list []Assignment
	for _, name := range []string{"Storage Blob Data Owner", "Storage Queue Data Contributor",
		"Storage Table Data Contributor", manager} {
		list = append(list, Assignment{Principal: "*", Role: name, Scope: DevelopmentAccount})
	}
	set, err := NewRoles(list...)
	if err != nil {
		panic("auth: the development roles are not valid: " + err.Error())
	}
	return set
}

// findRole returns the rows of a role: one for each service in which it permits something.
func findRole(name string) (found []role) {
	for _, r := range roles {
		if strings.EqualFold(r.name, strings.TrimSpace(name)) {
			found = append(found, r)
		}
	}
	return found
}

// of returns the rights of p on one resource of a service: a container, queue or table, or "" for the service itself.
func (set *Roles) of(p *Principal, svc wire.Service, account, resource string) (sum rights) {
	if set == nil {
		return sum
	}
	if svc == wire.Table {
		resource = strings.ToLower(resource)
	}
	for i := range set.list {
		a := &set.list[i]
		if a.service != svc || a.account != account && a.account != "*" || !a.names(p) {
			continue
		}
		sum.parts = sum.parts || a.rights.object != 0 // assigned on any resource in the account
		if a.resource == "" || a.resource == resource {
			r := a.rights
			// A user delegation key stands for an object ID, so that a role of a group or of an application ID does not count.
			r.delegate = r.delegate && a.namesObject(p)
			sum.add(r)
		}
	}
	return sum
}

func (a *assignment) names(p *Principal) bool {
	return a.namesObject(p) || p.ClientID != "" && strings.EqualFold(a.principal, p.ClientID) ||
		slices.Contains(p.groups, a.object)
}

func (a *assignment) namesObject(p *Principal) bool {
	return a.principal == "*" || a.object == p.ObjectID
}
