package blob

import "github.com/lazuli-storage/lazuli/internal/state/blob/record"

// indexTags records that the base blob has tags, so that Find reads only blobs that have some.
func (c *change) indexTags(b *record.Blob) {
	if len(b.Tags) > 0 {
		c.tx.Put(record.TagsBucket, record.TagsKey(c.Account, c.Item), []byte{record.Version})
	}
}

func (c *change) unindexTags(b *record.Blob) {
	if len(b.Tags) > 0 {
		c.tx.Delete(record.TagsBucket, record.TagsKey(c.Account, c.Item))
	}
}
