package blobsvc

import "github.com/lazuli-storage/lazuli/internal/store"

// blobCheck is what an operation asks of its preconditions before it changes a blob, a method of [preconditions]. It brings
// the blob up to date.
type blobCheck func(p *preconditions, b *blobRecord, now ticks) error

// updateBlob changes the base blob in one transaction, once the preconditions of a write hold. change may run twice and
// writes the record itself if it is to be kept.
func (s *Service) updateBlob(c *call, change func(tx *store.Tx, gen uint64, b *blobRecord) error) error {
	return s.updateSlot(c, baseSlot, (*preconditions).checkWrite, change)
}

// updateSlot is updateBlob for any slot, and for operations that check something else than writes do.
func (s *Service) updateSlot(c *call, slot uint64, check blobCheck, change func(tx *store.Tx, gen uint64, b *blobRecord) error) error {
	p, err := c.preconditions()
	if err != nil {
		return err
	}
	return s.update(c, func(tx *store.Tx) error {
		gen, err := containerGen(tx, c.Account, c.container)
		if err != nil {
			return err
		}
		var b blobRecord
		if err := getBlob(tx, gen, c.blob, slot, &b); err != nil {
			return err
		}
		if err := check(&p, &b, c.now()); err != nil {
			return err
		}
		return change(tx, gen, &b)
	})
}
