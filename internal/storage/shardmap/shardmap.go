// Package shardmap says which shard of a server has the data of an account.
//
// An account of a service, such as the queues of "shop", hashes to one of 4,096 slots, and a map gives each slot a
// shard. So a map has the same size for ten accounts and for a million, and an account can be moved by moving its slot,
// or by itself with an exception. The slot of a name is a part of the format of data folders: it never changes.
package shardmap

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
)

const (
	// Slots is the number of slots.
	Slots = 4096
	// Max is the largest number of shards: it fits into the upper bits of the numbers that a shard draws, see [First].
	Max = 64
	// maxExceptions bounds the accounts that are in another shard than their slot.
	maxExceptions = 100_000
)

// The names of the services in a map. Data Lake is the Blob service.
const (
	Blob  = "blob"
	Queue = "queue"
	Table = "table"
)

// ErrInvalid means that a map does not give each account one of its shards.
var ErrInvalid = errors.New("the map of shards is not valid")

// Map gives each account of each service a shard, by its number from 0. It does not change, and is safe for concurrent
// use.
type Map struct {
	shards   int
	revision uint64
	slots    [Slots]uint8
	// exceptions are the shards of accounts that are not in that of their slot, by service and account.
	exceptions map[string]uint8
}

// New returns the map of a new folder with 1 to [Max] shards: slot n is in shard n mod shards.
func New(shards int) (*Map, error) {
	if shards < 1 || shards > Max {
		return nil, fmt.Errorf("%w: a server has 1 to %d shards, not %d", ErrInvalid, Max, shards)
	}
	m := &Map{shards: shards, revision: 1}
	for i := range m.slots {
		m.slots[i] = uint8(i % shards)
	}
	return m, nil
}

// Shards is the number of shards.
func (m *Map) Shards() int { return m.shards }

// Revision is the number of the version of the map. A new map has 1.
func (m *Map) Revision() uint64 { return m.revision }

// Of returns the shard of an account of a service: "blob", "queue" or "table".
func (m *Map) Of(service, account string) int {
	if m.shards == 1 {
		return 0
	}
	if len(m.exceptions) > 0 {
		if shard, ok := m.exceptions[service+"/"+account]; ok {
			return int(shard)
		}
	}
	return int(m.slots[Slot(service, account)])
}

// With returns the next revision of the map, in which one account of a service is in a given shard. It moves no data.
func (m *Map) With(service, account string, shard int) (*Map, error) {
	next := *m
	next.revision++
	next.exceptions = maps.Clone(m.exceptions)
	if next.exceptions == nil {
		next.exceptions = map[string]uint8{}
	}
	name := service + "/" + account
	delete(next.exceptions, name)
	if shard < 0 || shard >= m.shards {
		return nil, fmt.Errorf("%w: %s would be in shard %d of %d", ErrInvalid, name, shard, m.shards)
	}
	if int(m.slots[Slot(service, account)]) != shard {
		next.exceptions[name] = uint8(shard)
	}
	return &next, next.check()
}

// Slot returns the slot of an account of a service: the FNV-1a hash of "service/account" with 64 bits, of which the
// upper half is added to the lower one, modulo [Slots].
func Slot(service, account string) int {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	// Not hash/fnv: it takes the text as bytes, which would be copied for each request.
	add := func(s string) {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
	}
	add(service)
	add("/")
	add(account)
	return int((h ^ h>>32) % Slots)
}

// First returns the first number that a shard draws for what it numbers, such as queues and containers. The numbers of
// two shards differ, so that an account can be moved with those that it has. Those of shard 0 begin with 1, as without
// shards; a shard has 2^45 numbers, and all of them are exact in a JSON document.
func First(shard int) uint64 { return uint64(shard)<<45 + 1 }

// stored is a map as it is stored: what differs from a new map.
type stored struct {
	Shards   int    `json:"shards"`
	Revision uint64 `json:"revision"`
	// Slots are the shards of slots that are not slot mod shards.
	Slots      map[int]uint8    `json:"slots,omitempty"`
	Exceptions map[string]uint8 `json:"exceptions,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (m *Map) MarshalJSON() ([]byte, error) {
	s := stored{Shards: m.shards, Revision: m.revision, Exceptions: m.exceptions}
	for i, shard := range m.slots {
		if int(shard) != i%m.shards {
			if s.Slots == nil {
				s.Slots = map[int]uint8{}
			}
			s.Slots[i] = shard
		}
	}
	return json.Marshal(s)
}

// UnmarshalJSON implements [json.Unmarshaler]. Errors: [ErrInvalid], those of package json.
func (m *Map) UnmarshalJSON(text []byte) error {
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	fresh, err := New(s.Shards)
	if err != nil {
		return err
	}
	fresh.revision, fresh.exceptions = s.Revision, s.Exceptions
	for slot, shard := range s.Slots {
		if slot < 0 || slot >= Slots {
			return fmt.Errorf("%w: slot %d", ErrInvalid, slot)
		}
		fresh.slots[slot] = shard
	}
	if err := fresh.check(); err != nil {
		return err
	}
	*m = *fresh
	return nil
}

// check returns why a request would be sent to a shard that does not exist, or why the map would be too long to keep.
func (m *Map) check() error {
	if m.revision == 0 {
		return fmt.Errorf("%w: it has no revision", ErrInvalid)
	}
	for slot, shard := range m.slots {
		if int(shard) >= m.shards {
			return fmt.Errorf("%w: slot %d is in shard %d of %d", ErrInvalid, slot, shard, m.shards)
		}
	}
	if len(m.exceptions) > maxExceptions {
		return fmt.Errorf("%w: %d exceptions, more than %d", ErrInvalid, len(m.exceptions), maxExceptions)
	}
	for name, shard := range m.exceptions {
		service, account, _ := strings.Cut(name, "/")
		switch {
		case service != Blob && service != Queue && service != Table || account == "" || strings.Contains(account, "/"):
			return fmt.Errorf("%w: %q is no account of a service", ErrInvalid, name)
		case int(shard) >= m.shards:
			return fmt.Errorf("%w: %s is in shard %d of %d", ErrInvalid, name, shard, m.shards)
		}
	}
	return nil
}
