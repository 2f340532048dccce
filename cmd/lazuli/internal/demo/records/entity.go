package records

import (
	"encoding/json"
	"math"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
)

// Entity is a record ready to be loaded.
type Entity struct {
	Key  rig.Key
	JSON []byte
	// Old records are to be archived.
	Old bool
}

// Cutoff is the day on which the Congress that the records are of began. Terms that were over by then are old.
var Cutoff = time.Date(2025, 1, 3, 0, 0, 0, 0, time.UTC)

// Entities returns the first limit records as entities, or all if limit is 0.
func Entities(limit int) ([]Entity, error) {
	terms, err := Load()
	if err != nil {
		return nil, err
	}
	if limit > 0 && limit < len(terms) {
		terms = terms[:limit]
	}
	entities := make([]Entity, 0, len(terms))
	for _, t := range terms {
		e, err := NewEntity(t)
		if err != nil {
			return nil, err
		}
		entities = append(entities, e)
	}
	return entities, nil
}

// NewEntity returns a record as an entity.
func NewEntity(t Term) (Entity, error) {
	years := t.End.Sub(t.Start).Hours() / 24 / 365.25
	body, err := json.Marshal(map[string]any{
		"PartitionKey": t.PartitionKey(), "RowKey": t.RowKey(),
		"Name": t.Name, "Chamber": t.Chamber, "District": t.District, "Class": t.Class, "Party": t.Party, "Term": t.Number,
		"Start": t.Start.Format(time.RFC3339), "Start@odata.type": "Edm.DateTime",
		"End": t.End.Format(time.RFC3339), "End@odata.type": "Edm.DateTime",
		// Mostly 2 and 6: whole numbers that must stay doubles.
		"Years": math.Round(years*10) / 10, "Years@odata.type": "Edm.Double",
	})
	return Entity{Key: rig.Key{Partition: t.PartitionKey(), Row: t.RowKey()}, JSON: body, Old: t.Over(Cutoff)}, err
}
