package blobsvc

import (
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// containerRecord is the state of one container.
type containerRecord struct {
	// gen is the generation, the first part of the keys of everything in the container.
	gen uint64
	// changed is when properties, metadata or the access policy last changed: Last-Modified and the entity tag.
	changed  ticks.Ticks
	metadata []wire.Meta
	lease    lease
	// access is the public access level: "", "blob" or "container".
	access   string
	policies []properties.StoredPolicy
	// deleted is when the container was deleted, and keptDays for how long it can be restored; 0 for one that is there.
	deleted  ticks.Ticks
	keptDays int64
	// scope is the encryption scope of new blobs that name none, "" for none; onlyScope lets them have no other.
	scope     string
	onlyScope bool
	// immutable lets the container's blobs have immutability policies and legal holds.
	immutable bool
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

func (c *containerRecord) encode() []byte {
	e := newEncoder(64)
	e.uint(ctGen, c.gen)
	e.uint(ctChanged, uint64(c.changed))
	e.metadata(ctMetadata, c.metadata)
	e.lease(ctLease, c.lease)
	e.text(ctAccess, c.access)
	if len(c.policies) > 0 {
		e.tag(ctPolicies)
		e.uvarint(uint64(len(c.policies)))
		for _, p := range c.policies {
			e.string(p.ID)
			e.string(p.Start)
			e.string(p.Expiry)
			e.string(p.Permissions)
			e.uvarint(uint64(map[bool]int{true: 1}[p.Bare]))
		}
	}
	e.uint(ctDeleted, uint64(c.deleted))
	e.uint(ctKeptDays, uint64(c.keptDays))
	e.bool(ctImmutable, c.immutable)
	e.text(ctScope, c.scope)
	e.bool(ctOnlyScope, c.onlyScope)
	return e.b
}

func decodeContainer(v []byte) (c containerRecord, err error) {
	d := newDecoder(v)
	for d.more() {
		switch d.byte() {
		case ctGen:
			c.gen = d.uint()
		case ctChanged:
			c.changed = ticks.Ticks(d.uint())
		case ctMetadata:
			c.metadata = d.metadata()
		case ctLease:
			c.lease = d.lease()
		case ctAccess:
			c.access = d.string()
		case ctPolicies:
			c.policies = make([]properties.StoredPolicy, d.count(5))
			for i := range c.policies {
				p := &c.policies[i]
				p.ID, p.Start, p.Expiry, p.Permissions, p.Bare = d.string(), d.string(), d.string(), d.string(), d.uint() == 1
			}
		case ctDeleted:
			c.deleted = ticks.Ticks(d.uint())
		case ctKeptDays:
			c.keptDays = int64(d.uint())
		case ctScope:
			c.scope = d.string()
		case ctOnlyScope:
			c.onlyScope = d.bool()
		case ctImmutable:
			c.immutable = d.bool()
		default:
			d.fail()
		}
	}
	return c, d.err()
}

func (e *encoder) metadata(tag byte, list []wire.Meta) {
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

func (d *decoder) metadata() []wire.Meta {
	list := make([]wire.Meta, d.count(2))
	for i := range list {
		list[i] = wire.Meta{Name: d.string(), Value: d.string()}
	}
	return list
}

func (e *encoder) lease(tag byte, l lease) {
	if l == (lease{}) {
		return
	}
	e.tag(tag)
	e.b = append(e.b, byte(l.state))
	e.string(l.id)
	e.uvarint(uint64(l.duration + 1))
	e.uvarint(uint64(l.until))
}

func (d *decoder) lease() lease {
	return lease{state: leaseState(d.byte()), id: d.string(), duration: int64(d.uint()) - 1, until: ticks.Ticks(d.uint())}
}

// getContainer reads a container. It fails with errContainerNotFound.
func getContainer(tx *store.Tx, account, name string) (containerRecord, error) {
	v := tx.Get(containersBucket, containerKey(account, name))
	if v == nil {
		return containerRecord{}, errContainerNotFound
	}
	return decodeContainer(v)
}

func putContainer(tx *store.Tx, account, name string, c *containerRecord) {
	tx.Put(containersBucket, containerKey(account, name), c.encode())
}

// containerGen reads only the generation of a container, for the paths that need no more. It fails with
// errContainerNotFound.
func containerGen(tx *store.Tx, account, name string) (uint64, error) {
	v := tx.Get(containersBucket, containerKey(account, name))
	if v == nil {
		return 0, errContainerNotFound
	}
	// The generation is always the first field.
	if len(v) < 3 || v[0] != recordVersion || v[1] != ctGen {
		return 0, errRecord
	}
	var n uint64
	for i, c := range v[2:] {
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return n, nil
		}
	}
	return 0, errRecord
}
