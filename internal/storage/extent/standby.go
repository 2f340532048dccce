package extent

import "errors"

// The folder of a standby has its extents as copies with holes: it receives them piece by piece, in no order that it
// could rely on, while a Store with Options.ReadOnly reads what is there.
//
//	Extend, again and again ──> <id>.copy ──> FillCopies: zeros in the holes ──> NameCopies: <id>.open
//
// Which ranges there are, the caller keeps: to learn it from the files, all of them would have to be read.

// Extend puts records into the folder of a standby, which it creates. have are the ranges that the extents have; Extend
// adds to it what contents puts, once that is durable. What a killed process has put is put again.
func Extend(dir string, o Options, have map[uint64][]Range,
	contents func(put func(id uint64, at int64, records []byte) error) error) error {
	s, err := openStandby(dir, o, have)
	if err != nil {
		return err
	}
	if err = errors.Join(contents(s.PutRecords), s.SyncAllPuts()); err == nil {
		for id, e := range s.extents {
			have[id] = e.coverage.spans()
		}
	}
	return errors.Join(err, s.Close())
}

// openStandby opens the folder of a standby whose extents have some ranges.
func openStandby(dir string, o Options, have map[uint64][]Range) (*Store, error) {
	o.Mirrored = true
	s, err := Open(dir, o)
	if err != nil {
		return nil, err
	}
	for id, e := range s.extents {
		e.coverage = &coverage{}
		for _, r := range have[id] {
			e.coverage.add(r.From, r.To)
		}
	}
	return s, nil
}

// FillCopies writes records of zeros between the ranges that the extents of a standby have, as [Restore] does. It may
// be called again after a crash, until NameCopies was called.
func FillCopies(dir string, o Options, have map[uint64][]Range) error {
	s, err := openStandby(dir, o, have)
	if err != nil {
		return err
	}
	return errors.Join(s.fillGaps(), s.SyncAllPuts(), s.Close())
}
