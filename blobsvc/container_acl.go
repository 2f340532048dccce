package blobsvc

import (
	"errors"
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// containerPermissions are the letters that a stored access policy of a container may have.
const containerPermissions = "racwdxyltmeopif"

// getContainerACL: https://learn.microsoft.com/rest/api/storageservices/get-container-acl
func (s *Service) getContainerACL(c *call) error {
	rec, err := s.readContainer(c)
	if err != nil {
		return err
	}
	c.sendChanged(rec.Changed)
	c.sendAccess(&rec)
	return c.XML(http.StatusOK, properties.PoliciesXML(wirePolicies(rec.Policies)))
}

// setContainerACL: https://learn.microsoft.com/rest/api/storageservices/set-container-acl
func (s *Service) setContainerACL(c *call) error {
	access, err := c.publicAccess()
	if err != nil {
		return err
	}
	body, err := c.ReadBody(properties.MaxPoliciesBytes)
	if err != nil {
		return err
	}
	list, err := properties.ParsePolicies(body, containerPermissions)
	if errors.Is(err, wire.ErrInvalidXMLDocument) { // Azure names a place in the document, and here none
		return wire.ErrInvalidXMLDocument.With("LineNumber", "0").With("LinePosition", "0").With("Reason", "")
	}
	if err != nil {
		return err
	}
	policies := make([]state.StoredPolicy, len(list))
	for i, p := range list {
		policies[i] = state.StoredPolicy{ID: p.ID, Start: p.Start, Expiry: p.Expiry, Permissions: p.Permissions, Bare: p.Bare}
	}
	w, err := s.conditionalContainerWrite(c)
	if err != nil {
		return err
	}
	changed, err := s.state.SetContainerACL(&w, access, policies)
	if err != nil {
		return err
	}
	c.sendChanged(changed)
	return c.Status(http.StatusOK)
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
	rec, err := s.state.GetContainer(c.Account, c.container, "", c.Now)
	if err != nil {
		if errors.Is(err, state.ErrContainerNotFound) {
			err = nil
		}
		return p, false, err
	}
	p, found = properties.FindPolicy(wirePolicies(rec.Policies), id)
	return p, found, nil
}
