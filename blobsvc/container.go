package blobsvc

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// publicAccess reads x-ms-blob-public-access.
func publicAccess(c *call) (string, error) {
	s, err := c.Headers().Word("X-Ms-Blob-Public-Access", "blob", "container", "true")
	if s == "true" { // the name of "container" before 2009-09-19, still sent by old tools
		s = "container"
	}
	return s, err
}

// createContainer: https://learn.microsoft.com/rest/api/storageservices/create-container
func (s *Service) createContainer(c *call) error {
	metadata, err := metadata(c.Metadata())
	if err != nil {
		return err
	}
	access, err := publicAccess(c)
	if err != nil {
		return err
	}
	if err := c.CreateContainer(record.Container{Metadata: metadata, Access: access}); err != nil {
		return err
	}
	return c.Status(http.StatusCreated)
}

// getContainerProperties: https://learn.microsoft.com/rest/api/storageservices/get-container-properties
func (s *Service) getContainerProperties(c *call) error {
	rec, err := c.GetContainer()
	if err != nil {
		return err
	}
	c.SendChanged(rec.Changed)
	c.SetMetadata(wireMetadata(rec.Metadata))
	c.SendLease(rec.Lease)
	if c.EffectiveVersion() >= endpoint.V20160531 {
		sendAccess(c, &rec)
	}
	if c.EffectiveVersion() >= endpoint.V20171109 {
		c.Set("x-ms-has-immutability-policy", "false")
		c.Set("x-ms-has-legal-hold", "false")
	}
	if c.EffectiveVersion() >= endpoint.V20190202 {
		c.Set("x-ms-default-encryption-scope", encryption.ID{Scope: rec.Scope}.ScopeName())
		c.Set("x-ms-deny-encryption-scope-override", strconv.FormatBool(rec.OnlyScope))
	}
	if c.EffectiveVersion() >= endpoint.V20201002 {
		c.Set("x-ms-immutable-storage-with-versioning-enabled", strconv.FormatBool(rec.Immutable))
	}
	return c.Status(http.StatusOK)
}

func sendAccess(c *call, rec *record.Container) {
	if rec.Access != "" {
		c.Set("x-ms-blob-public-access", rec.Access)
	}
}

// getContainerMetadata: https://learn.microsoft.com/rest/api/storageservices/get-container-metadata
func (s *Service) getContainerMetadata(c *call) error {
	rec, err := c.GetContainer()
	if err != nil {
		return err
	}
	c.SendChanged(rec.Changed)
	c.SetMetadata(wireMetadata(rec.Metadata))
	return c.Status(http.StatusOK)
}

// setContainerMetadata: https://learn.microsoft.com/rest/api/storageservices/set-container-metadata
func (s *Service) setContainerMetadata(c *call) error {
	metadata, err := metadata(c.Metadata())
	if err != nil {
		return err
	}
	return c.ChangeContainerMetadata(metadata)
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
	if c.Container == "" { // a request to the service, which the missing headers had refused (recorded)
		return wire.ErrInvalidURI
	}
	if err := record.CheckContainerName(name); err != nil {
		return wire.InvalidHeader("x-ms-deleted-container-name", name)
	}
	deleted, ok := record.ParseDeletedVersion(version)
	if !ok {
		return wire.InvalidHeader("x-ms-deleted-container-version", version)
	}
	w := c.NewContainerWrite()
	if err := s.state.Containers.Restore(&w, name, deleted); err != nil {
		return err
	}
	return c.Status(http.StatusCreated)
}

// containerPermissions are the letters that a stored access policy of a container may have. The service drops the
// letter f (recorded: test_storage_container_access_policy_scenario of azure-cli).
const containerPermissions = "racwdxyltmeopif"

// v20150405 brought the permissions a and c of stored access policies.
const v20150405 wire.Version = 20150405

// errFeatureVersion: a stored access policy has a permission that the version of the request does not know.
// https://learn.microsoft.com/rest/api/storageservices/sas-error-codes
var errFeatureVersion = endpoint.Fail(http.StatusConflict, "FeatureVersionMismatch",
	"Stored access policy contains a permission that is not supported by this version.")

// getContainerACL: https://learn.microsoft.com/rest/api/storageservices/get-container-acl
func (s *Service) getContainerACL(c *call) error {
	rec, err := c.GetContainer()
	if err != nil {
		return err
	}
	// Versions before these permissions have no form for a policy with them.
	if c.EffectiveVersion() < v20150405 && slices.ContainsFunc(rec.Policies, func(p record.StoredPolicy) bool {
		return strings.ContainsAny(p.Permissions, "ac")
	}) {
		return errFeatureVersion
	}
	c.SendChanged(rec.Changed)
	sendAccess(c, &rec)
	return c.XML(http.StatusOK, properties.PoliciesXML(endpoint.WirePolicies(rec.Policies)))
}

// setContainerACL: https://learn.microsoft.com/rest/api/storageservices/set-container-acl
func (s *Service) setContainerACL(c *call) error {
	access, err := publicAccess(c)
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
	policies := make([]record.StoredPolicy, len(list))
	for i, p := range list {
		policies[i] = record.StoredPolicy{ID: p.ID, Start: p.Start, Expiry: p.Expiry,
			Permissions: strings.ReplaceAll(p.Permissions, "f", ""), Bare: p.Bare}
	}
	w, err := c.NewConditionalContainerWrite()
	if err != nil {
		return err
	}
	changed, err := s.state.Containers.SetACL(&w, access, policies)
	if err != nil {
		return err
	}
	c.SendChanged(changed)
	return c.Status(http.StatusOK)
}

// renameContainer gives a container another name, in accounts with a hierarchical namespace. The reference does not
// have it; clients do.
func (s *Service) renameContainer(c *call) error {
	source := c.Header("X-Ms-Source-Container-Name")
	if source == "" {
		return wire.MissingHeader("x-ms-source-container-name")
	}
	if !s.storage.Hierarchical(c.Account) {
		return endpoint.ErrNeedsTree
	}
	w := c.NewContainerWrite()
	var err error
	if w.If.LeaseID, err = endpoint.LeaseID(c.Headers(), "X-Ms-Source-Lease-Id"); err != nil {
		return err
	}
	if err := s.state.Containers.Rename(&w, source); err != nil {
		return err
	}
	return c.Status(http.StatusOK)
}

// leaseContainer: https://learn.microsoft.com/rest/api/storageservices/lease-container
func (s *Service) leaseContainer(c *call) error {
	q, err := c.LeaseRequest(auth.OnContainer)
	if err != nil {
		return err
	}
	w := c.NewContainerWrite()
	w.If.Conditions = state.Conditions(c.Headers().Conditions())
	result, err := s.state.Containers.Lease(&w, &q)
	if err != nil {
		return endpoint.LeaseError(err, "container")
	}
	return c.AnswerLease(q.Action, &result)
}
