package extent

import "sync/atomic"

// checked is a table of the records that were recently found intact. A record has one entry, determined by the hash of
// its position. Another record may replace the entry; then the first is checked again. An entry has 48 bits of the hash
// and 16 bits of time, in units of Options.Recheck / recheckUnits.
type checked [1 << 15]atomic.Uint64

// recheckUnits is the number of time units that an entry lasts.
const recheckUnits = 64

// entry returns the table entry for the record of that payload and its hash, whose low 16 bits are 0.
func (c *checked) entry(x Slice) (place *atomic.Uint64, hash uint64) {
	h := x.Extent*0x9e3779b97f4a7c15 ^ uint64(x.Offset)*0xd6e8feb86659fd93
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 29
	return &c[h%uint64(len(c))], h &^ 0xffff
}
