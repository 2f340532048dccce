package durable

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

// names of what makes up a hub.
type names struct{ hub string }

func (n names) lower() string         { return strings.ToLower(n.hub) }
func (n names) instances() string     { return n.hub + "Instances" }
func (n names) history() string       { return n.hub + "History" }
func (n names) entities() string      { return n.hub + "Entities" }
func (n names) control(i int) string  { return fmt.Sprintf("%s-control-%02d", n.lower(), i) }
func (n names) workItems() string     { return n.lower() + "-workitems" }
func (n names) poison() string        { return n.lower() + poison.Suffix }
func (n names) shared() string        { return n.lower() + "-shared" }
func (n names) leases() string        { return n.lower() + "-leases" }
func (n names) largeMessages() string { return n.lower() + "-largemessages" }

// hubInfoBlob is the blob in the lease container that describes the hub.
const hubInfoBlob = "taskhub.json"

// leaseFolder precedes the names of the lease blobs.
const leaseFolder = "default/"

func (n names) lease(i int) string { return leaseFolder + n.control(i) }

// partitionOf returns the partition of an instance, by FNV-1a of its ID as DurableTask.AzureStorage does.
func partitionOf(instance string, partitions int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(instance))
	return int(h.Sum32() % uint32(partitions))
}

const maxInstanceID = 256

// ErrBadInstanceID: the instance ID cannot be part of keys, blob names and messages.
var ErrBadInstanceID = errors.New("durable: the instance ID cannot be used")

// errEntityID means that the ID is one of an entity, and the call is for instances of workflows.
var errEntityID = errors.New("it is the ID of an entity")

// checkInstanceID returns ErrBadInstanceID unless the ID is 1 to 256 bytes of UTF-8 without control characters, U+FFFE
// and U+FFFF. IDs that begin with @ are those of entities, as in Durable Functions.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-orchestrations#orchestration-identity
func checkInstanceID(id string) error {
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

// checkEntityID returns ErrBadInstanceID unless the ID is one of an entity, "@name@key", in at most 256 bytes of UTF-8
// without control characters.
func checkEntityID(id string) error {
	name, _, ok := strings.Cut(strings.TrimPrefix(id, "@"), "@")
	if len(id) == 0 || id[0] != '@' || !ok || name == "" {
		return fmt.Errorf("%w: an entity's ID is @name@key, and not %.100q", ErrBadInstanceID, id)
	}
	return checkInstanceID(id[1:])
}

// checkReceiver returns ErrBadInstanceID unless the ID is one of an instance or of an entity.
func checkReceiver(id string) error {
	if isEntity(id) {
		return checkEntityID(id)
	}
	return checkInstanceID(id)
}

// isEntity reports whether a message's receiver is an entity.
func isEntity(id string) bool { return strings.HasPrefix(id, "@") }

// Characters that a partition key cannot have, or that the SDK does not quote in a batch, as ^ and a digit; the first
// four as in DurableTask.AzureStorage.
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#characters-disallowed-in-key-fields
var (
	escaper   = strings.NewReplacer("^", "^^", "/", "^0", `\`, "^1", "#", "^2", "?", "^3", "'", "^4", "%", "^5", "+", "^6")
	unescaper = strings.NewReplacer("^^", "^", "^0", "/", "^1", `\`, "^2", "#", "^3", "?", "^4", "'", "^5", "%", "^6", "+")
)

// partitionKey returns the key under which an instance is stored.
func partitionKey(instance string) string { return escaper.Replace(instance) }

func instanceOf(partitionKey string) string { return unescaper.Replace(partitionKey) }

// quote writes a string as a literal of a filter.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s,%d,%s", host, os.Getpid(), uuid.NewString()[:8])
}
