package extent

import "fmt"

// ownerShift is the position of the owner in an id.
const ownerShift = 40

// idMillis is the number of milliseconds for which a node may use one id. Its ids begin with the clock, so that none is
// used twice, also if its extents were lost or deleted: others may still have a copy of such an extent, with other
// records. A node that has just started creates several extents at once, and may be started again in the next second.
// The clock has 40 bits until the year 2109.
const idMillis = 4

// MaxOwner is the largest number of an owner.
const MaxOwner = 1<<24 - 1

// OwnerOf returns the number of the node that has written an extent.
func OwnerOf(id uint64) uint64 { return id >> ownerShift }

func idText(id uint64) string { return fmt.Sprintf("%016x", id) }
