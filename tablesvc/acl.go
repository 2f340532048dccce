package tablesvc

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
)

// policyPermissions are the permissions that a stored access policy of a table may have: query, add, update, delete.
const policyPermissions = "raud"

// setTableACL is Set Table ACL. An empty body removes all policies.
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
	var value json.RawMessage
	if len(policies) > 0 {
		if value, err = json.Marshal(policies); err != nil {
			return fmt.Errorf("encoding access policies: %w", err)
		}
	}
	if err := s.state.SetPolicies(c.Account, c.table, value); err != nil {
		return err
	}
	c.Set("Content-Length", "0")
	return c.Status(http.StatusNoContent)
}

// getTableACL is Get Table ACL.
// https://learn.microsoft.com/rest/api/storageservices/get-table-acl
func (s *Service) getTableACL(c *call) error {
	policies, err := s.policies(c.Account, c.table)
	if err != nil {
		return err
	}
	return c.XML(http.StatusOK, properties.PoliciesXML(policies))
}

// policies returns the stored access policies of a table. It fails with [state.ErrTableNotFound].
func (s *Service) policies(account, table string) (list []properties.StoredPolicy, err error) {
	t, err := s.state.GetTable(account, table)
	if err != nil || len(t.Policies) == 0 {
		return nil, err
	}
	if err := json.Unmarshal(t.Policies, &list); err != nil {
		return nil, fmt.Errorf("access policies of table %s: %w", t.Name, err)
	}
	return list, nil
}

// policy returns a stored access policy of the table that the call names. It is the front-end's Policy.
func (s *Service) policy(c *call, id string) (p auth.Policy, found bool, err error) {
	name := c.table
	if name == "" { // a transaction names its table in its parts, the signature in tn
		name = c.Query.Get("tn")
	}
	policies, err := s.policies(c.Account, name)
	if errors.Is(err, state.ErrTableNotFound) {
		return p, false, nil
	}
	p, found = properties.FindPolicy(policies, id)
	return p, found, err
}
