package tabletool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/emptykey"
)

// Create creates a table. quiet ignores one that exists.
func Create(ctx context.Context, service *aztables.ServiceClient, name string, quiet bool) error {
	_, err := service.CreateTable(ctx, name, nil)
	if quiet && hasCode(err, aztables.TableAlreadyExists) {
		return nil
	}
	return err
}

// Delete deletes a table with its entities.
func Delete(ctx context.Context, service *aztables.ServiceClient, name string) error {
	_, err := service.DeleteTable(ctx, name, nil)
	return err
}

func hasCode(err error, code aztables.TableErrorCode) bool {
	return err != nil && strings.Contains(err.Error(), string(code))
}

// The modes of Put.
const (
	Insert  = "insert"  // fails if the entity exists
	Replace = "replace" // writes the entity as it is given
	Merge   = "merge"   // keeps the properties that are not given
)

// maxEntityLine bounds a line with an entity in bytes: 1 MiB of properties take more as JSON.
const maxEntityLine = 16 << 20

// Put writes the entities of r, a line of JSON each, in the form in which Query shows them, and returns how many. It stops at the first
// failure, whose error names the line.
func Put(ctx context.Context, client *aztables.Client, r io.Reader, mode string) (count int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxEntityLine)
	for n := 1; lines.Scan(); n++ {
		if len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		entity, partition, err := typed(lines.Bytes())
		if err == nil {
			err = write(ctx, client, entity, partition, mode)
		}
		if err != nil {
			return count, fmt.Errorf("line %d: %w", n, err)
		}
		count++
	}
	return count, lines.Err()
}

func write(ctx context.Context, client *aztables.Client, members map[string]json.RawMessage, partition, mode string) error {
	ctx, partition, check := emptykey.Address(ctx, partition)
	key, err := json.Marshal(partition)
	if err != nil {
		return err
	}
	members["PartitionKey"] = key
	entity, err := json.Marshal(members)
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

// typed parses an entity, and names the type of numbers with a fraction or an exponent: the SDK writes 1.0 as 1, which would be an Int32.
func typed(entity []byte) (members map[string]json.RawMessage, partition string, err error) {
	if err := json.Unmarshal(entity, &members); err != nil {
		return nil, "", err
	}
	if members["PartitionKey"] == nil || members["RowKey"] == nil {
		return nil, "", errors.New("the entity lacks PartitionKey or RowKey")
	}
	if err := json.Unmarshal(members["PartitionKey"], &partition); err != nil {
		return nil, "", fmt.Errorf("PartitionKey: %w", err)
	}
	for name, v := range members {
		if isNumber(v) && strings.ContainsAny(string(v), ".eE") && members[name+"@odata.type"] == nil {
			members[name+"@odata.type"] = json.RawMessage(`"Edm.Double"`)
		}
	}
	delete(members, "Timestamp") // The service sets it.
	delete(members, "Timestamp@odata.type")
	return members, partition, nil
}

// Get returns one entity as JSON, in the form in which Query shows it.
func Get(ctx context.Context, client *aztables.Client, partition, row string) ([]byte, error) {
	var response *http.Response
	format := aztables.MetadataFormatMinimal
	ctx, partition, check := emptykey.Address(ctx, partition)
	if _, err := client.GetEntity(policy.WithCaptureResponse(ctx, &response), partition, row, &aztables.GetEntityOptions{Format: &format}); err != nil {
		return nil, err
	}
	if err := check(); err != nil {
		return nil, err
	}
	body, err := runtime.Payload(response)
	if err != nil {
		return nil, err
	}
	return withoutAnnotations(body)
}

// Remove deletes one entity, whatever its ETag.
func Remove(ctx context.Context, client *aztables.Client, partition, row string) error {
	ctx, partition, check := emptykey.Address(ctx, partition)
	if _, err := client.DeleteEntity(ctx, partition, row, nil); err != nil {
		return err
	}
	return check()
}

// isNumber reports whether a value of JSON is a number.
func isNumber(v json.RawMessage) bool { return v[0] == '-' || v[0] >= '0' && v[0] <= '9' }
