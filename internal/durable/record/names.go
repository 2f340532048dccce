package record

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
)

// Names of what makes up a hub.
type Names struct{ Hub string }

func (n Names) Lower() string         { return strings.ToLower(n.Hub) }
func (n Names) Instances() string     { return n.Hub + "Instances" }
func (n Names) History() string       { return n.Hub + "History" }
func (n Names) Entities() string      { return n.Hub + "Entities" }
func (n Names) Control(i int) string  { return fmt.Sprintf("%s-control-%02d", n.Lower(), i) }
func (n Names) WorkItems() string     { return n.Lower() + "-workitems" }
func (n Names) Poison() string        { return n.Lower() + poison.Suffix }
func (n Names) Shared() string        { return n.Lower() + "-shared" }
func (n Names) Leases() string        { return n.Lower() + "-leases" }
func (n Names) LargeMessages() string { return n.Lower() + "-largemessages" }

// HubInfoBlob is the blob in the lease container that describes the hub.
const HubInfoBlob = "taskhub.json"

// LeaseFolder precedes the names of the lease blobs.
const LeaseFolder = "default/"

func (n Names) Lease(i int) string { return LeaseFolder + n.Control(i) }

// PartitionOf returns the partition of an instance, by FNV-1a of its ID as DurableTask.AzureStorage does.
func PartitionOf(instance string, partitions int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(instance))
	return int(h.Sum32() % uint32(partitions))
}

const maxInstanceID = 256

// ErrBadInstanceID means that an ID cannot be part of keys, blob names and messages. It is an ErrBadRequest.
var ErrBadInstanceID error = badID{}

type badID struct{}

func (badID) Error() string { return "durable: the instance ID cannot be used" }

// Is makes the error one of a request that is not valid, which is the name that programs have for it.
func (badID) Is(target error) bool { return target == ErrBadRequest }

// errEntityID means that the ID is one of an entity, and the call is for instances of workflows.
var errEntityID = errors.New("it is the ID of an entity")

// CheckInstanceID returns ErrBadInstanceID unless the ID is 1 to 256 bytes of UTF-8 without control characters, U+FFFE
// and U+FFFF. IDs that begin with @ are those of entities, as in Durable Functions.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-orchestrations#orchestration-identity
func CheckInstanceID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: it is empty", ErrBadInstanceID)
	case len(id) > maxInstanceID:
		return fmt.Errorf("%w: it has %d bytes; %d are allowed", ErrBadInstanceID, len(id), maxInstanceID)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: it is not UTF-8", ErrBadInstanceID)
	case id[0] == '@':
		return fmt.Errorf("%w: it begins with @: %w", ErrBadInstanceID, errEntityID)
	}
	for _, r := range id {
		if unicode.IsControl(r) || r == 0xFFFE || r == 0xFFFF {
			return fmt.Errorf("%w: it contains the character %U", ErrBadInstanceID, r)
		}
	}
	return nil
}

// CheckEntityID returns ErrBadInstanceID unless the ID is one of an entity, "@name@key", in at most 256 bytes of UTF-8
// without control characters.
func CheckEntityID(id string) error {
	name, _, ok := strings.Cut(strings.TrimPrefix(id, "@"), "@")
	if len(id) == 0 || id[0] != '@' || !ok || name == "" {
		return fmt.Errorf("%w: an entity's ID is @name@key, and not %.100q", ErrBadInstanceID, id)
	}
	return CheckInstanceID(id[1:])
}

// checkReceiver returns ErrBadInstanceID unless the ID is one of an instance or of an entity.
func checkReceiver(id string) error {
	if IsEntity(id) {
		return CheckEntityID(id)
	}
	return CheckInstanceID(id)
}

// IsEntity reports whether a message's receiver is an entity.
func IsEntity(id string) bool { return strings.HasPrefix(id, "@") }

// Characters that a partition key cannot have, or that the SDK does not quote in a batch, as ^ and a digit; the first
// four as in DurableTask.AzureStorage.
//
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#characters-disallowed-in-key-fields
var (
	escaper = strings.NewReplacer("^", "^^", "/", "^0",
		`\`, "^1", "#", "^2", "?", "^3", "'", "^4", "%", "^5", "+", "^6")
	unescaper = strings.NewReplacer("^^", "^", "^0", "/", "^1",
		`\`, "^2", "#", "^3", "?", "^4", "'", "^5", "%", "^6", "+")
)

// PartitionKey returns the key under which an instance is stored.
func PartitionKey(instance string) string { return escaper.Replace(instance) }

func InstanceOf(partitionKey string) string { return unescaper.Replace(partitionKey) }

// Quote writes a string as a literal of a filter.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func WorkerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s,%d,%s", host, os.Getpid(), uuid.NewString()[:8])
}

func NewID() string { return uuid.NewString() }

// dtfxEscaper writes partition keys of DTFx: it leaves ', % and + as they are, which ours escapes. Control characters,
// which DTFx moves up by 0xC0, are in no ID that is looked for.
// https://github.com/Azure/durabletask/blob/main/src/DurableTask.AzureStorage/Tracking/KeySanitation.cs
var dtfxEscaper = strings.NewReplacer("^", "^^", "/", "^0", `\`, "^1", "#", "^2", "?", "^3")

// DtfxKey returns the partition key under which DTFx stores an instance.
func DtfxKey(instance string) string { return dtfxEscaper.Replace(instance) }

func (n Names) Partitions() string { return n.Hub + "Partitions" }
