package tabletool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/emptykey"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
	"github.com/lazuli-storage/lazuli/tables"
)

// Delete deletes a table with its entities.
func Delete(ctx context.Context, service *aztables.ServiceClient, name string) error {
	_, err := service.DeleteTable(ctx, name, nil)
	return err
}

// The modes of Put.
const (
	Insert  = "insert"  // fails if the entity exists
	Replace = "replace" // writes the entity as it is given
	Merge   = "merge"   // keeps the properties that are not given
)

// maxEntityLine bounds a line with an entity in bytes: 1 MiB of properties take more as JSON.
const maxEntityLine = 16 << 20

// Put writes the entities of r, a line of JSON each, in the form in which Query shows them, and returns how many. It
// stops at the first failure, whose error names the line.
func Put(ctx context.Context, client *aztables.Client, r io.Reader, mode string) (count int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxEntityLine)
	for n := 1; lines.Scan(); n++ {
		if len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		e, err := parse(lines.Bytes())
		if err == nil {
			err = write(ctx, client, &e, mode)
		}
		if err != nil {
			return count, fmt.Errorf("line %d: %w", n, err)
		}
		count++
	}
	return count, lines.Err()
}

func write(ctx context.Context, client *aztables.Client, e *tables.Entity, mode string) error {
	ctx, partition, check := emptykey.Address(ctx, e.PartitionKey)
	e.PartitionKey = partition
	entity, err := e.MarshalJSON()
	if err != nil {
		return err
	}
	switch mode {
	case Insert:
		_, err = client.AddEntity(ctx, entity, nil)
	case Replace:
		_, err = client.UpsertEntity(ctx, entity, &aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace})
	case Merge:
		_, err = client.UpsertEntity(ctx, entity, &aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeMerge})
	default:
		return fmt.Errorf("there is no mode %q; want %s, %s or %s", mode, Insert, Replace, Merge)
	}
	if err != nil {
		return err
	}
	return check()
}

// parse reads an entity.
func parse(line []byte) (e tables.Entity, err error) {
	var keys struct{ PartitionKey, RowKey *string }
	if err := json.Unmarshal(line, &keys); err != nil {
		return e, err
	}
	if keys.PartitionKey == nil || keys.RowKey == nil {
		return e, errors.New("the entity lacks PartitionKey or RowKey")
	}
	return e, e.UnmarshalJSON(line)
}

// Get returns one entity as JSON, in the form in which Query shows it.
func Get(ctx context.Context, client *aztables.Client, partition, row string) ([]byte, error) {
	got, err := entityio.Get(ctx, client, partition, row)
	if err != nil {
		return nil, err
	}
	return withoutAnnotations(got.JSON)
}

// Remove deletes one entity, whatever its ETag.
func Remove(ctx context.Context, client *aztables.Client, partition, row string) error {
	ctx, partition, check := emptykey.Address(ctx, partition)
	if _, err := client.DeleteEntity(ctx, partition, row, nil); err != nil {
		return err
	}
	return check()
}
