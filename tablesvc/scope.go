package tablesvc

import (
	"bytes"
	"cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/filter"
)

// A table's shared access signature may be limited to a range of keys: from (startpk, startrk) to (endpk, endrk), both
// inclusive, compared as the store orders keys. A bound without its row key holds for the whole partition.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#restrict-access-to-table-entities

// mayTouch says whether the caller may read or write the entity with these keys.
func (c *call) mayTouch(partition, row []byte) error {
	e, limited := c.caller.EntityRange()
	if !limited || inScope(e, partition, row) {
		return nil
	}
	return wire.ErrAuthorizationPermissionMismatch
}

func inScope(e auth.EntityRange, partition, row []byte) bool {
	order := func(pk, rk string, hasRow bool) int {
		o := entity.CompareStrings(partition, []byte(pk))
		if o == 0 && hasRow {
			o = entity.CompareStrings(row, []byte(rk))
		}
		return cmp.Compare(o, 0)
	}
	return (!e.HasStartPK || order(e.StartPK, e.StartRK, e.HasStartRK) >= 0) &&
		(!e.HasEndPK || order(e.EndPK, e.EndRK, e.HasEndRK) <= 0)
}

// confine cuts the ranges of a plan down to what the caller may read.
func (c *call) confine(p filter.Plan, table uint64) filter.Plan {
	e, limited := c.caller.EntityRange()
	if !limited {
		return p
	}
	start, end := entity.AppendTableID(nil, table), entity.AppendTableID(nil, table+1)
	if e.HasStartPK {
		start = entity.AppendKey(nil, table, e.StartPK, e.StartRK)
	}
	if e.HasEndPK {
		if e.HasEndRK {
			end = append(entity.AppendKey(nil, table, e.EndPK, e.EndRK), 0)
		} else {
			end = append(entity.AppendKeyPart(entity.AppendTableID(nil, table), e.EndPK), 1)
		}
	}
	ranges := make([]filter.Range, 0, len(p.Ranges))
	for _, r := range p.Ranges {
		if bytes.Compare(r.Start, start) < 0 {
			r.Start, r.Point = start, false
		}
		if bytes.Compare(r.End, end) > 0 {
			r.End = end
		}
		if bytes.Compare(r.Start, r.End) < 0 {
			ranges = append(ranges, r)
		}
	}
	p.Ranges = ranges
	return p
}

// policy finds a stored access policy of the table that the call names. It is the front-end's Policy.
func (s *Service) policy(c *call, id string) (p auth.Policy, found bool, err error) {
	name := c.table
	if name == "" { // a transaction names its table in its parts, the signature in tn
		name = c.Query.Get("tn")
	}
	err = s.db.View(func(tx *store.Tx) error {
		t, ok, err := findTable(tx, c.Account, name)
		if err != nil || !ok {
			return err
		}
		p, found = properties.FindPolicy(t.policies, id)
		return nil
	})
	return p, found, err
}
