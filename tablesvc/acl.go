package tablesvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// policyPermissions are the permissions that a stored access policy of a table may have: query, add, update, delete.
const policyPermissions = "raud"

// setTableACL is Set Table ACL. No body means no policies.
// https://learn.microsoft.com/rest/api/storageservices/set-table-acl
func (s *Service) setTableACL(c *call) error {
	body, err := c.ReadBody(properties.MaxPoliciesBytes)
	if err != nil {
		return err
	}
	policies, err := properties.ParsePolicies(body, policyPermissions)
	if err != nil {
		return err
	}
	err = s.db.Update(func(tx *store.Tx) error {
		t, err := mustFindTable(tx, c.Account, c.table)
		if err != nil {
			return err
		}
		t.policies = policies
		tx.Put(bucketTables, tableKey(c.Account, c.table), t.encode())
		return nil
	})
	if err != nil {
		return err
	}
	c.Set("Content-Length", "0")
	return c.Status(http.StatusNoContent)
}

// getTableACL is Get Table ACL.
// https://learn.microsoft.com/rest/api/storageservices/get-table-acl
func (s *Service) getTableACL(c *call) error {
	var t table
	err := s.db.View(func(tx *store.Tx) (err error) {
		t, err = mustFindTable(tx, c.Account, c.table)
		return err
	})
	if err != nil {
		return err
	}
	return c.XML(http.StatusOK, properties.PoliciesXML(t.policies))
}

// mustFindTable is findTable that fails with errTableNotFound.
func mustFindTable(tx *store.Tx, account, name string) (table, error) {
	t, found, err := findTable(tx, account, name)
	if err == nil && !found {
		err = errTableNotFound
	}
	return t, err
}
