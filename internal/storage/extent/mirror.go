package extent

// Mirror has the copies on other nodes.
type Mirror interface {
	// Begin returns a MirrorWriter for the records of a Writer.
	Begin() MirrorWriter
	// Fetch returns the record that contains x from another node, with its offset. It must be intact.
	Fetch(x Slice) (offset int64, record []byte, err error)
	// Healed is called after damaged content of this node was replaced.
	Healed(x Slice)
}

// MirrorWriter copies the records of one Writer to other nodes.
type MirrorWriter interface {
	// Add sends a record, with the filler behind it, which it does not keep. last is set if no other record follows. It
	// may wait until others were received.
	Add(x Slice, records []byte, last bool) error
	// Commit returns nil once a majority of the nodes, this one included, has all records durably.
	Commit() error
	// Close ends the copying.
	Close()
}

// mirrored is the state of a Store that has a Mirror.
type mirrored struct {
	Mirror
	owner uint64
}
