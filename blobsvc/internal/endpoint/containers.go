package endpoint

import (
	"errors"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// defaultScope reads the scope that a new container gives its blobs, "" for none, and whether they can have no other.
func (c *Call) defaultScope() (scope string, only bool, err error) {
	scope = c.Header("X-Ms-Default-Encryption-Scope")
	if only, _, err = c.Headers().Flag("X-Ms-Deny-Encryption-Scope-Override"); err != nil {
		return "", false, err
	}
	if only && scope == "" {
		return "", false, wire.MissingHeader("x-ms-default-encryption-scope")
	}
	if scope == "" || scope == encryption.AccountScope {
		return "", only, nil
	}
	_, err = c.Scopes.Cipher(c.Account, scope)
	return scope, only, err
}

// CreateContainer creates the container in the request, with the encryption scope that its headers name.
func (c *Call) CreateContainer(rec record.Container) (err error) {
	if rec.Scope, rec.OnlyScope, err = c.defaultScope(); err != nil {
		return err
	}
	w := c.NewContainerWrite()
	changed, err := c.State.Containers.Create(&w, rec)
	if err == nil {
		c.SendChanged(changed)
	}
	return err
}

// NewContainerWrite returns the parameters of a change of the container in the request, without preconditions.
func (c *Call) NewContainerWrite() state.ContainerWrite {
	return state.ContainerWrite{Account: c.Account, Container: c.Container, Now: c.Now, Policy: c.Policy(c.Account),
		Owner: c.Caller().Owner()}
}

// GetContainer reads the container that the request names, and checks the lease ID if one was sent.
func (c *Call) GetContainer() (rec record.Container, err error) {
	id, err := LeaseID(c.Headers(), "X-Ms-Lease-Id")
	if err != nil {
		return rec, err
	}
	return c.State.Containers.Get(c.Account, c.Container, id, c.Now)
}

// NewConditionalContainerWrite is NewContainerWrite with the conditional headers and the lease ID. Operations on
// containers know only dates.
func (c *Call) NewConditionalContainerWrite() (w state.ContainerWrite, err error) {
	w = c.NewContainerWrite()
	conditions := c.Headers().Conditions()
	if conditions.IfMatch != "" || conditions.IfNoneMatch != "" {
		return w, errConditionHeadersNotSupported
	}
	w.If.Conditions = state.Conditions(conditions)
	w.If.LeaseID, err = LeaseID(c.Headers(), "X-Ms-Lease-Id")
	return w, err
}

// errConditionHeadersNotSupported: a conditional header that the operation does not know.
var errConditionHeadersNotSupported = Fail(http.StatusBadRequest, "ConditionHeadersNotSupported",
	"Condition headers are not supported.")

// ChangeContainerMetadata replaces the metadata of the container in the request.
func (c *Call) ChangeContainerMetadata(metadata []record.Meta) error {
	w, err := c.NewConditionalContainerWrite()
	if err != nil {
		return err
	}
	changed, err := c.State.Containers.SetMetadata(&w, metadata)
	if err != nil {
		return err
	}
	c.SendChanged(changed)
	return c.Status(http.StatusOK)
}

// DeleteContainer: https://learn.microsoft.com/rest/api/storageservices/delete-container
func (c *Call) DeleteContainer() error {
	w, err := c.NewConditionalContainerWrite()
	if err != nil {
		return err
	}
	if err := c.State.Containers.Delete(&w); err != nil {
		return err
	}
	c.Wake()
	return c.Status(http.StatusAccepted)
}

// WirePolicies are stored access policies as the protocol has them.
func WirePolicies(policies []record.StoredPolicy) []properties.StoredPolicy {
	list := make([]properties.StoredPolicy, len(policies))
	for i, p := range policies {
		list[i] = properties.StoredPolicy{ID: p.ID,
			Policy: auth.Policy{Start: p.Start, Expiry: p.Expiry, Permissions: p.Permissions}, Bare: p.Bare}
	}
	return list
}

// StoredPolicy finds a stored access policy of the container that a request names.
func (c *Call) StoredPolicy(id string) (p auth.Policy, found bool, err error) {
	rec, err := c.State.Containers.Get(c.Account, c.Container, "", c.Now)
	if err != nil {
		if errors.Is(err, record.ErrContainerNotFound) {
			err = nil
		}
		return p, false, err
	}
	p, found = properties.FindPolicy(WirePolicies(rec.Policies), id)
	return p, found, nil
}
