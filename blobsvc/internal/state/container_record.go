package state

import (
	"slices"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Container is the state of one container.
type Container struct {
	// generation is the generation, the first part of the keys of everything in the container.
	generation generation
	// Changed is the time at which properties, metadata or the access policy last changed: Last-Modified and the entity
	// tag.
	Changed  ticks.Ticks
	Metadata []Meta
	Lease    Lease
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

func (c *Container) encode() []byte {
	e := newEncoder(64)
	e.uint(ctGen, uint64(c.generation))
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

func decodeContainer(v []byte) (c Container, err error) {
	d := newDecoder(v)
	for d.more() {
		switch d.byte() {
		case ctGen:
			c.generation = generation(d.uint())
		case ctChanged:
			c.Changed = ticks.Ticks(d.uint())
		case ctMetadata:
			c.Metadata = d.metadata()
		case ctLease:
			c.Lease = d.lease()
		case ctAccess:
			c.Access = d.string()
		case ctPolicies:
			c.Policies = make([]StoredPolicy, d.count(5))
			for i := range c.Policies {
				p := &c.Policies[i]
				p.ID, p.Start, p.Expiry, p.Permissions, p.Bare = d.string(), d.string(), d.string(), d.string(), d.uint() == 1
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

func (e *encoder) lease(tag byte, l Lease) {
	if l == (Lease{}) {
		return
	}
	e.tag(tag)
	e.b = append(e.b, byte(l.State))
	e.string(l.ID)
	e.uvarint(uint64(l.Duration + 1))
	e.uvarint(uint64(l.Until))
}

func (d *decoder) lease() Lease {
	return Lease{State: LeaseState(d.byte()), ID: d.string(), Duration: int64(d.uint()) - 1, Until: ticks.Ticks(d.uint())}
}

// getContainer reads a container. It fails with errContainerNotFound.
func getContainer(tx *store.Tx, account, name string) (Container, error) {
	v := tx.Get(containersBucket, containerKey(account, name))
	if v == nil {
		return Container{}, ErrContainerNotFound
	}
	return decodeContainer(v)
}

func putContainer(tx *store.Tx, account, name string, c *Container) {
	tx.Put(containersBucket, containerKey(account, name), c.encode())
}

// containerGeneration reads only the generation of a container, for the paths that need no more. It fails with
// errContainerNotFound.
func containerGeneration(tx *store.Tx, account, name string) (generation, error) {
	v := tx.Get(containersBucket, containerKey(account, name))
	if v == nil {
		return 0, ErrContainerNotFound
	}
	// The generation is always the first field.
	if len(v) < 3 || v[0] != recordVersion || v[1] != ctGen {
		return 0, errRecord
	}
	var n uint64
	for i, c := range v[2:] {
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return generation(n), nil
		}
	}
	return 0, errRecord
}

// Hierarchical reports whether a container is a tree.
func (c *Container) Hierarchical() bool { return c.generation.isTree() }
