package tabletool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf16"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/tables"
)

// PartitionTarget is the number of entities a second that one partition carries on Azure, AccountTarget an account.
// https://learn.microsoft.com/azure/storage/tables/scalability-targets
const (
	PartitionTarget = 2_000
	AccountTarget   = 20_000
)

// Stats are figures about a table.
type Stats struct {
	Partitions int `json:"partitions"`
	Entities   int `json:"entities"`
	// Bytes hold what the entities take, by Azure's formula.
	Bytes int64 `json:"bytes"`
	// Top are the first partitions by the order that was asked for.
	Top []PartitionStats `json:"top"`
}

// PartitionStats are figures about a partition.
type PartitionStats struct {
	Partition string `json:"partition"`
	Entities  int    `json:"entities"`
	Bytes     int64  `json:"bytes"`
	// Changed are the entities whose last change was in the window, Peak the most of them in one second. Entities that are
	// gone, and changes before an entity's last one, do not count.
	Changed int `json:"changed"`
	Peak    int `json:"peak"`
}

// ErrOrder means that partitions have no order of that name.
var ErrOrder = errors.New("unknown order of partitions")

// StatsOptions are the options of ReadStats.
type StatsOptions struct {
	// By orders the partitions: "entities", "bytes" or "rate".
	By string
	// Top is the number of partitions that are kept.
	Top int
	// Since begins the window for Changed and Peak.
	Since time.Time
}

// order returns how partitions compare, the first to be shown first.
func (o StatsOptions) order() (func(a, b PartitionStats) int, error) {
	switch o.By {
	case "entities":
		return func(a, b PartitionStats) int { return cmp.Compare(b.Entities, a.Entities) }, nil
	case "bytes":
		return func(a, b PartitionStats) int { return cmp.Compare(b.Bytes, a.Bytes) }, nil
	case "rate":
		return func(a, b PartitionStats) int {
			return cmp.Or(cmp.Compare(b.Peak, a.Peak), cmp.Compare(b.Changed, a.Changed))
		}, nil
	}
	return nil, fmt.Errorf("%w: %q; there are entities, bytes and rate", ErrOrder, o.By)
}

// ReadStats reads the whole table and returns figures about it. It keeps one partition's figures at a time, and the top
// ones.
func ReadStats(ctx context.Context, service *aztables.ServiceClient, table string, o StatsOptions) (Stats, error) {
	var s Stats
	order, err := o.order()
	if err != nil {
		return s, err
	}
	t, err := tables.New[tables.Entity](service, table)
	if err != nil {
		return s, err
	}
	var p PartitionStats
	seconds := map[int64]int{}
	// The table is read in the order of its keys, so a partition is complete when another one begins, and one at a time
	// is held.
	finish := func() {
		if p.Entities == 0 {
			return
		}
		s.Partitions++
		s.Top = append(s.Top, p)
		slices.SortStableFunc(s.Top, order)
		// Cut after each partition: a table may have as many partitions as entities.
		s.Top = s.Top[:min(len(s.Top), o.Top)]
	}
	for e, err := range t.Query().AllowScan().All(ctx) {
		if err != nil {
			return s, err
		}
		if p.Entities > 0 && e.PartitionKey != p.Partition {
			finish()
			p = PartitionStats{}
			clear(seconds)
		}
		size := sizeOf(&e)
		p.Partition = e.PartitionKey
		p.Entities++
		p.Bytes += size
		s.Entities++
		s.Bytes += size
		// Counted by seconds of the Timestamp, which is the last change alone: an entity that was changed twice counts
		// once.
		if !e.Timestamp.Before(o.Since) {
			p.Changed++
			seconds[e.Timestamp.Unix()]++
			p.Peak = max(p.Peak, seconds[e.Timestamp.Unix()])
		}
	}
	finish()
	return s, nil
}

// sizeOf holds what an entity takes, by Azure's formula: 4 bytes, 2 for each character of the keys, and for each
// property 8, 2 for each character of its name, and its value.
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#entity
func sizeOf(e *tables.Entity) int64 {
	size := 4 + 2*(characters(e.PartitionKey)+characters(e.RowKey))
	for name, value := range e.Properties {
		size += 8 + 2*characters(name)
		switch v := value.(type) {
		case string:
			size += 4 + 2*characters(v)
		case []byte:
			size += 4 + int64(len(v))
		case bool:
			size++
		case int32:
			size += 4
		case uuid.UUID:
			size += 16
		default: // int64, float64, time.Time
			size += 8
		}
	}
	return size
}

func characters(s string) int64 {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return int64(n)
}
