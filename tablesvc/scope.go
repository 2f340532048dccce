package tablesvc

import (
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
)

// scope returns the range of keys that a table's shared access signature limits the caller to: from (startpk, startrk)
// to (endpk, endrk), both inclusive. It is nil without a limit. A bound without its row key is a whole partition.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#restrict-access-to-table-entities
func (c *call) scope() *state.Scope {
	e, limited := c.caller.EntityRange()
	if !limited {
		return nil
	}
	bound := func(hasPartition bool, partition string, hasRow bool, row string) *state.Bound {
		if !hasPartition {
			return nil
		}
		b := &state.Bound{Partition: partition}
		if hasRow {
			b.Row = &row
		}
		return b
	}
	return &state.Scope{Start: bound(e.HasStartPK, e.StartPK, e.HasStartRK, e.StartRK),
		End: bound(e.HasEndPK, e.EndPK, e.HasEndRK, e.EndRK)}
}

// checkScope returns an error if the caller may not read or write the entity with these keys.
func (c *call) checkScope(partition, row []byte) error {
	if c.scope().Includes(partition, row) {
		return nil
	}
	return wire.ErrAuthorizationPermissionMismatch
}
