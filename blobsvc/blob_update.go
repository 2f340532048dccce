package blobsvc

import (
	"github.com/lazuli-storage/lazuli/internal/storage/store"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// blobCheck is what an operation asks of its preconditions before it changes a blob, a method of [preconditions]. It brings
// the blob up to date.
type blobCheck func(p *Preconditions, b *Blob, now ticks.Ticks) error

// updateBlob changes the base blob in one transaction, once the preconditions of a write hold. change may run twice and
// writes the record itself if it is to be kept.
func (s *Service) updateBlob(c *call, change func(tx *store.Tx, gen uint64, b *Blob) error) error {
	return s.updateBase(c, (*Preconditions).checkWrite, change)
}

// updateBase is updateBlob for operations that check something else than writes do.
func (s *Service) updateBase(c *call, check blobCheck, change func(tx *store.Tx, gen uint64, b *Blob) error) error {
	return s.updateAt(c, Address{}, check, func(tx *store.Tx, gen, _ uint64, b *Blob) error { return change(tx, gen, b) })
}

// updateAt is updateBase for snapshots and versions, too. change is told the slot.
func (s *Service) updateAt(c *call, at Address, check blobCheck, change func(tx *store.Tx, gen, slot uint64, b *Blob) error) error {
	p, err := c.preconditions()
	if err != nil {
		return err
	}
	return s.update(c, func(tx *store.Tx) error {
		gen, err := containerGen(tx, c.Account, c.container)
		if err != nil {
			return err
		}
		var b Blob
		slot, err := at.get(tx, gen, c.blob, &b)
		if err != nil {
			return err
		}
		if err := check(&p, &b, c.now()); err != nil {
			return err
		}
		return change(tx, gen, slot, &b)
	})
}
