package replog

// partsKept is the number of messages after which parts without their record are dropped. All nodes count alike, so
// that all decide alike whether a record is complete.
const partsKept = 100_000

// addPartLocked keeps a part. A writer has at most one record with parts at a time.
func (l *Log) addPartLocked(seq uint64, h header, payload []byte) {
	set := l.parts[h.writer]
	if set == nil || set.counter != h.counter {
		set = &partSet{counter: h.counter, first: seq, list: make(map[uint32][]byte)}
		l.parts[h.writer] = set
	}
	set.list[h.parts] = payload
}

// takePartsLocked returns the payload of a record with its parts, and whether there are all of them. The writer's parts
// are forgotten.
func (l *Log) takePartsLocked(h header, payload []byte) (all []byte, complete bool) {
	set := l.parts[h.writer]
	delete(l.parts, h.writer)
	if h.parts == 0 {
		return payload, true
	}
	if set == nil || set.counter != h.counter || uint64(len(set.list)) < uint64(h.parts) {
		return nil, false
	}
	n := len(payload)
	for _, p := range set.list {
		n += len(p)
	}
	all = make([]byte, 0, n)
	for i := range h.parts {
		p, ok := set.list[i]
		if !ok {
			return nil, false
		}
		all = append(all, p...)
	}
	return append(all, payload...), true
}

// expirePartsLocked drops parts whose record did not come.
func (l *Log) expirePartsLocked(seq uint64) {
	for writer, set := range l.parts {
		if set.first+partsKept < seq {
			delete(l.parts, writer)
		}
	}
}

// resumeLocked returns the sequence after which a node must read that restarts after a valid record: before the parts
// that are kept.
func (l *Log) resumeLocked(seq uint64) uint64 {
	for _, set := range l.parts {
		seq = min(seq, set.first-1)
	}
	return seq
}
