package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// What the nodes of a cluster know of the tier of content is in the meta bucket: its place, and for each extent that is
// there the prefix and the id in hexadecimal. Releases that do not know these keys leave them alone, and keep the
// content.
var (
	TierPlaceKey = []byte("tier place")
	tieredPrefix = []byte("tiered:")
)

// TierPlace is the place of the tier of a shard of a cluster.
type TierPlace struct {
	// Folder is the folder of the objects, Key tells the key from another one.
	Folder string `json:"folder"`
	Key    string `json:"key,omitempty"`
}

// Tiered says that the tier has an extent.
type Tiered struct {
	// Size is that of the extent in bytes, Sum the checksum of its object's content.
	Size int64  `json:"size"`
	Sum  string `json:"sum"`
}

// TieredKey returns the key of an extent's record.
func TieredKey(id uint64) []byte { return fmt.Appendf(nil, "%s%016x", tieredPrefix, id) }

// ParseTieredKey is the inverse of [TieredKey].
func ParseTieredKey(k []byte) (id uint64, ok bool) {
	text, ok := bytes.CutPrefix(k, tieredPrefix)
	if !ok || len(text) != 16 {
		return 0, false
	}
	id, err := strconv.ParseUint(string(text), 16, 64)
	return id, err == nil
}

// DecodeTiered decodes the record of an extent.
func DecodeTiered(v []byte) (x Tiered, err error) {
	if err := json.Unmarshal(v, &x); err != nil || x.Size <= 0 || x.Sum == "" {
		return x, ErrMalformed
	}
	return x, nil
}

// DecodeTierPlace decodes the place.
func DecodeTierPlace(v []byte) (x TierPlace, err error) {
	if err := json.Unmarshal(v, &x); err != nil || x.Folder == "" {
		return x, ErrMalformed
	}
	return x, nil
}

// EachTiered calls fn with the extents that the tier has.
func EachTiered(tx *store.Tx, fn func(id uint64, x Tiered) error) error {
	c := tx.Cursor(MetaBucket)
	for k, v := c.Seek(tieredPrefix); bytes.HasPrefix(k, tieredPrefix); k, v = c.Next() {
		id, ok := ParseTieredKey(k)
		x, err := DecodeTiered(v)
		if !ok || err != nil {
			return fmt.Errorf("the record %q of an extent in the tier: %w", k, ErrMalformed)
		}
		if err := fn(id, x); err != nil {
			return err
		}
	}
	return nil
}

// ForgetTier removes what the nodes of a cluster know of their tier: the data is that of another cluster from now on,
// and all of its content is on this machine.
func ForgetTier(tx *store.Tx) {
	var keys [][]byte
	c := tx.Cursor(MetaBucket)
	for k, _ := c.Seek(tieredPrefix); bytes.HasPrefix(k, tieredPrefix); k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		tx.Delete(MetaBucket, k)
	}
	if tx.Get(MetaBucket, TierPlaceKey) != nil {
		tx.Delete(MetaBucket, TierPlaceKey)
	}
}
