package blobsvc

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// publicAccess reads x-ms-blob-public-access.
func (c *call) publicAccess() (string, error) {
	s, err := c.word("X-Ms-Blob-Public-Access", "blob", "container", "true")
	if s == "true" { // the name of "container" before 2009-09-19, still sent by old tools
		s = "container"
	}
	return s, err
}

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

// createContainer: https://learn.microsoft.com/rest/api/storageservices/create-container
func (s *Service) createContainer(c *call) error {
	metadata, err := c.metadata()
	if err != nil {
		return err
	}
	access, err := c.publicAccess()
	if err != nil {
		return err
	}
	if err := s.newContainer(c, state.Container{Metadata: metadata, Access: access}); err != nil {
		return err
	}
	return c.Status(http.StatusCreated)
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

// getContainerProperties: https://learn.microsoft.com/rest/api/storageservices/get-container-properties
func (s *Service) getContainerProperties(c *call) error {
	rec, err := s.readContainer(c)
	if err != nil {
		return err
	}
	c.sendChanged(rec.Changed)
	c.sendMetadata(rec.Metadata)
	c.sendLease(rec.Lease)
	c.sendAccess(&rec)
	c.Set("x-ms-has-immutability-policy", "false")
	c.Set("x-ms-has-legal-hold", "false")
	if c.version() >= v20190202 {
		c.Set("x-ms-default-encryption-scope", encryption.ID{Scope: rec.Scope}.ScopeName())
		c.Set("x-ms-deny-encryption-scope-override", strconv.FormatBool(rec.OnlyScope))
	}
	if c.version() >= v20201002 {
		c.Set("x-ms-immutable-storage-with-versioning-enabled", strconv.FormatBool(rec.Immutable))
	}
	return c.Status(http.StatusOK)
}

func (c *call) sendAccess(rec *state.Container) {
	if rec.Access != "" {
		c.Set("x-ms-blob-public-access", rec.Access)
	}
}

// getContainerMetadata: https://learn.microsoft.com/rest/api/storageservices/get-container-metadata
func (s *Service) getContainerMetadata(c *call) error {
	rec, err := s.readContainer(c)
	if err != nil {
		return err
	}
	c.sendChanged(rec.Changed)
	c.sendMetadata(rec.Metadata)
	return c.Status(http.StatusOK)
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

// setContainerMetadata: https://learn.microsoft.com/rest/api/storageservices/set-container-metadata
func (s *Service) setContainerMetadata(c *call) error {
	metadata, err := c.metadata()
	if err != nil {
		return err
	}
	return s.changeContainerMetadata(c, metadata)
}

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

// restoreContainer: https://learn.microsoft.com/rest/api/storageservices/restore-container
// The name that is restored to need not be the one that was deleted.
func (s *Service) restoreContainer(c *call) error {
	name, version := c.Header("X-Ms-Deleted-Container-Name"), c.Header("X-Ms-Deleted-Container-Version")
	switch {
	case name == "":
		return wire.MissingHeader("x-ms-deleted-container-name")
	case version == "":
		return wire.MissingHeader("x-ms-deleted-container-version")
	}
	if err := state.CheckContainerName(name); err != nil {
		return wire.InvalidHeader("x-ms-deleted-container-name", name)
	}
	deleted, ok := state.ParseDeletedVersion(version)
	if !ok {
		return wire.InvalidHeader("x-ms-deleted-container-version", version)
	}
	w := s.containerWrite(c)
	if err := s.state.Containers.Restore(&w, name, deleted); err != nil {
		return err
	}
	return c.Status(http.StatusCreated)
}

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
	changed, err := s.state.Containers.SetACL(&w, access, policies)
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
