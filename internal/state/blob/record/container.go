package record

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Container is the state of one container.
type Container struct {
	// Generation is the generation, the first part of the keys of everything in the container.
	Generation Generation
	// Changed is the time at which properties, metadata or the access policy last changed: Last-Modified and the entity
	// tag.
	Changed  ticks.Ticks
	Metadata []Meta
	Lease    lease.Lease
	// Access is the public access level: "", "blob" or "container".
	Access   string
	Policies []StoredPolicy
	// Deleted is the time at which the container was deleted, and keptDays for how long it can be restored; 0 for one that
	// is there.
	Deleted  ticks.Ticks
	KeptDays int64
	// Scope is the encryption scope of new blobs that name none, "" for none; onlyScope lets them have no other.
	Scope     string
	OnlyScope bool
	// Immutable lets the container's blobs have immutability policies and legal holds.
	Immutable bool
}

// StoredPolicy is one stored access policy of a container. Times are as the client sent them, "" if not given.
type StoredPolicy struct {
	ID, Start, Expiry, Permissions string
	// Bare is set for an identifier that came without a policy, which is returned as it came.
	Bare bool
}

// The tags of a container record.
const (
	ctGen       = 1
	ctChanged   = 2
	ctMetadata  = 3
	ctLease     = 4
	ctAccess    = 5
	ctPolicies  = 6
	ctDeleted   = 10
	ctKeptDays  = 11
	ctImmutable = 12
	ctScope     = 50
	ctOnlyScope = 51
)

func (c *Container) Encode() []byte {
	e := newEncoder(64)
	// First, where GenerationOf reads it without decoding the rest.
	e.uint(ctGen, uint64(c.Generation))
	e.uint(ctChanged, uint64(c.Changed))
	e.metadata(ctMetadata, c.Metadata)
	e.lease(ctLease, c.Lease)
	e.text(ctAccess, c.Access)
	if len(c.Policies) > 0 {
		e.tag(ctPolicies)
		e.uvarint(uint64(len(c.Policies)))
		for _, p := range c.Policies {
			e.string(p.ID)
			e.string(p.Start)
			e.string(p.Expiry)
			e.string(p.Permissions)
			e.uvarint(uint64(map[bool]int{true: 1}[p.Bare]))
		}
	}
	e.uint(ctDeleted, uint64(c.Deleted))
	e.uint(ctKeptDays, uint64(c.KeptDays))
	e.bool(ctImmutable, c.Immutable)
	e.text(ctScope, c.Scope)
	e.bool(ctOnlyScope, c.OnlyScope)
	return e.b
}

func DecodeContainer(v []byte) (c Container, err error) {
	d := newDecoder(v)
	for d.more() {
		switch d.byte() {
		case ctGen:
			c.Generation = Generation(d.uint())
		case ctChanged:
			c.Changed = ticks.Ticks(d.uint())
		case ctMetadata:
			c.Metadata = d.metadata()
		case ctLease:
			c.Lease = d.lease()
		case ctAccess:
			c.Access = d.string()
		case ctPolicies:
			// count has checked that the bytes for so many are there, so that a damaged number allocates no memory.
			c.Policies = make([]StoredPolicy, d.count(5))
			for i := range c.Policies {
				p := &c.Policies[i]
				p.ID = d.string()
				p.Start = d.string()
				p.Expiry = d.string()
				p.Permissions = d.string()
				p.Bare = d.uint() == 1
			}
		case ctDeleted:
			c.Deleted = ticks.Ticks(d.uint())
		case ctKeptDays:
			c.KeptDays = int64(d.uint())
		case ctScope:
			c.Scope = d.string()
		case ctOnlyScope:
			c.OnlyScope = d.bool()
		case ctImmutable:
			c.Immutable = d.bool()
		default:
			d.fail()
		}
	}
	return c, d.err()
}

func (e *encoder) metadata(tag byte, list []Meta) {
	if len(list) == 0 {
		return
	}
	e.tag(tag)
	e.uvarint(uint64(len(list)))
	for _, m := range list {
		e.string(m.Name)
		e.string(m.Value)
	}
}

func (d *decoder) metadata() []Meta {
	n := d.count(2)
	list := slices.Grow(d.list[:0], n)[:n]
	for i := range list {
		list[i] = Meta{Name: d.string(), Value: d.string()}
	}
	return list
}

func (e *encoder) lease(tag byte, l lease.Lease) {
	if l == (lease.Lease{}) {
		return
	}
	e.tag(tag)
	e.b = append(e.b, byte(l.State))
	e.string(l.ID)
	e.uvarint(uint64(l.Duration + 1))
	e.uvarint(uint64(l.Until))
}

func (d *decoder) lease() lease.Lease {
	return lease.Lease{State: lease.State(d.byte()), ID: d.string(), Duration: int64(d.uint()) - 1,
		Until: ticks.Ticks(d.uint())}
}

// GetContainer reads a container. It fails with ErrContainerNotFound.
func GetContainer(tx *store.Tx, account, name string) (Container, error) {
	v := tx.Get(ContainersBucket, ContainerKey(account, name))
	if v == nil {
		return Container{}, ErrContainerNotFound
	}
	return DecodeContainer(v)
}

func PutContainer(tx *store.Tx, account, name string, c *Container) {
	tx.Put(ContainersBucket, ContainerKey(account, name), c.Encode())
}

// GenerationOf reads only the generation of a container, for the paths that need no more. It fails with
// ErrContainerNotFound.
func GenerationOf(tx *store.Tx, account, name string) (Generation, error) {
	v := tx.Get(ContainersBucket, ContainerKey(account, name))
	if v == nil {
		return 0, ErrContainerNotFound
	}
	// The generation is always the first field.
	if len(v) < 3 || v[0] != Version || v[1] != ctGen {
		return 0, ErrMalformed
	}
	var n uint64
	for i, c := range v[2:] {
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return Generation(n), nil
		}
	}
	return 0, ErrMalformed
}

// Hierarchical reports whether a container is a tree.
func (c *Container) Hierarchical() bool { return c.Generation.IsTree() }

// Epoch1601 is the year 1601 in ticks, from which Azure counts the versions of deleted containers.
const Epoch1601 = 504911232000000000

// DeletedVersion describes how listings name a deleted container: the time of its deletion.
func (c *Container) DeletedVersion() string { return fmt.Sprintf("%016X", int64(c.Deleted-Epoch1601)) }

// ParseDeletedVersion parses what [Container.DeletedVersion] returns.
func ParseDeletedVersion(s string) (ticks.Ticks, bool) {
	n, err := strconv.ParseInt(s, 16, 64)
	if err != nil || n <= 0 || n > 1<<62 || len(s) != 16 {
		return 0, false
	}
	return ticks.Ticks(n) + Epoch1601, true
}

// PurgeAt returns the time at which a deleted container is removed.
func (c *Container) PurgeAt() ticks.Ticks { return c.Deleted + ticks.Ticks(c.KeptDays)*Day }

// RemainingDays is the number of whole days until a deleted container is removed.
func (c *Container) RemainingDays(now ticks.Ticks) int64 { return int64(max(0, c.PurgeAt()-now) / Day) }
