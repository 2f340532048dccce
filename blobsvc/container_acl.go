package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// containerPermissions are the letters that a stored access policy of a container may have.
const containerPermissions = "racwdxyltmeopif"

// getContainerACL: https://learn.microsoft.com/rest/api/storageservices/get-container-acl
func (s *Service) getContainerACL(c *call) error {
	rec, err := s.viewContainer(c)
	if err != nil {
		return err
	}
	c.sendVersion(rec.Changed)
	c.sendAccess(&rec)
	return c.XML(http.StatusOK, properties.PoliciesXML(rec.Policies))
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
	policies, err := properties.ParsePolicies(body, containerPermissions)
	if err != nil {
		return err
	}
	changed := s.ticks.Next(c.Now)
	err = s.updateContainer(c, false, func(tx *store.Tx, rec *Container) error {
		rec.Access, rec.Policies, rec.Changed = access, policies, changed
		putContainer(tx, c.Account, c.container, rec)
		return nil
	})
	if err != nil {
		return err
	}
	c.sendVersion(changed)
	return c.Status(http.StatusOK)
}
