package blobsvc

import (
	"errors"
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// defaultScope reads the scope that a new container gives its blobs, "" for none, and whether they can have no other.
func (s *Service) defaultScope(c *call) (scope string, only bool, err error) {
	scope = c.Header("X-Ms-Default-Encryption-Scope")
	if only, _, err = c.flag("X-Ms-Deny-Encryption-Scope-Override"); err != nil {
		return "", false, err
	}
	if only && scope == "" {
		return "", false, wire.MissingHeader("x-ms-default-encryption-scope")
	}
	if scope == "" || scope == encryption.AccountScope {
		return "", only, nil
	}
	_, err = s.scopes.Cipher(c.Account, scope)
	return scope, only, err
}

// newContainer creates the container in the request, with the encryption scope that its headers name.
func (s *Service) newContainer(c *call, rec state.Container) (err error) {
	if rec.Scope, rec.OnlyScope, err = s.defaultScope(c); err != nil {
		return err
	}
	w := s.containerWrite(c)
	changed, err := s.state.Containers.Create(&w, rec)
	if err == nil {
		c.sendChanged(changed)
	}
	return err
}

// containerWrite returns the parameters of a change of the container in the request, without preconditions.
func (s *Service) containerWrite(c *call) state.ContainerWrite {
	return state.ContainerWrite{Account: c.Account, Container: c.container, Now: c.Now, Policy: s.policy(c.Account),
		Owner: c.caller().Owner()}
}

// readContainer reads the container that the request names, and checks the lease ID if one was sent.
func (s *Service) readContainer(c *call) (rec state.Container, err error) {
	id, err := c.leaseID("X-Ms-Lease-Id")
	if err != nil {
		return rec, err
	}
	return s.state.Containers.Get(c.Account, c.container, id, c.Now)
}

// conditionalContainerWrite is containerWrite with the conditional headers and the lease ID. Operations on containers
// know only dates.
func (s *Service) conditionalContainerWrite(c *call) (w state.ContainerWrite, err error) {
	w = s.containerWrite(c)
	conditions, err := c.Conditions()
	if err != nil {
		return w, err
	}
	if conditions.IfMatch != "" || conditions.IfNoneMatch != "" {
		return w, errConditionHeadersNotSupported
	}
	w.If.Conditions = state.Conditions(conditions)
	w.If.LeaseID, err = c.leaseID("X-Ms-Lease-Id")
	return w, err
}

// errConditionHeadersNotSupported: a conditional header that the operation does not know.
var errConditionHeadersNotSupported = fail(http.StatusBadRequest, "ConditionHeadersNotSupported",
	"Condition headers are not supported.")

// changeContainerMetadata replaces the metadata of the container in the request.
func (s *Service) changeContainerMetadata(c *call, metadata []state.Meta) error {
	w, err := s.conditionalContainerWrite(c)
	if err != nil {
		return err
	}
	changed, err := s.state.Containers.SetMetadata(&w, metadata)
	if err != nil {
		return err
	}
	c.sendChanged(changed)
	return c.Status(http.StatusOK)
}

// deleteContainer: https://learn.microsoft.com/rest/api/storageservices/delete-container
func (s *Service) deleteContainer(c *call) error {
	w, err := s.conditionalContainerWrite(c)
	if err != nil {
		return err
	}
	if err := s.state.Containers.Delete(&w); err != nil {
		return err
	}
	s.background.Wake()
	return c.Status(http.StatusAccepted)
}

// wirePolicies are stored access policies as the protocol has them.
func wirePolicies(policies []state.StoredPolicy) []properties.StoredPolicy {
	list := make([]properties.StoredPolicy, len(policies))
	for i, p := range policies {
		list[i] = properties.StoredPolicy{ID: p.ID,
			Policy: auth.Policy{Start: p.Start, Expiry: p.Expiry, Permissions: p.Permissions}, Bare: p.Bare}
	}
	return list
}

// storedPolicy finds a stored access policy of the container that a request names.
func (s *Service) storedPolicy(c *call, id string) (p auth.Policy, found bool, err error) {
	rec, err := s.state.Containers.Get(c.Account, c.container, "", c.Now)
	if err != nil {
		if errors.Is(err, state.ErrContainerNotFound) {
			err = nil
		}
		return p, false, err
	}
	p, found = properties.FindPolicy(wirePolicies(rec.Policies), id)
	return p, found, nil
}
