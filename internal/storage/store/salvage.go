package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Examine reads a file and its log without opening them, which damage may prevent, and calls report for all damage: in
// the structure, in records of the log, and in values. The file must not change meanwhile.
func Examine(path string, buckets []Bucket, report func(*DamageError)) error {
	s := newSalvage(path, buckets, report)
	return s.run(func(Bucket, Write) error { return nil })
}

// Repaired is the result of Repair.
type Repaired struct {
	// Kept is the number of values, and of log records, that were intact.
	Kept, LogRecords int
	// Damaged is the number of problems that were reported.
	Damaged int
	// Lost holds what could not be kept.
	Lost []Loss
	// Follows means that the new file follows the replicated log of the old one, from where that was complete.
	Follows bool
	// Aside is the folder that the damaged file and its log were moved to.
	Aside string
}

// Loss describes values that could not be kept.
type Loss struct {
	Bucket Bucket
	// From is the key of the value, or of the first of a range of values that ends before To; nil means no bound.
	From, To []byte
	// Values is the number of values, 0 if it is not known. About means that it is not exact.
	Values int
	About  bool
	// Changes means that the number is that of changes of any values, which the log had.
	Changes bool
}

// Repair writes all intact data of a file and its log to a new file, moves the old ones to the folder aside, which it
// creates, and puts the new file in their place. It deletes nothing. report is called for all damage.
//
// The attachments of the log go to attachments, which may be nil if the log cannot have any. Of a damaged record,
// Restore may receive damaged attachments.
func Repair(path string, buckets []Bucket, aside string, attachments Attachments,
	report func(*DamageError)) (r Repaired, err error) {
	fresh := path + "-repair"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	s := newSalvage(path, buckets, func(d *DamageError) { r.Damaged++; report(d) })
	s.attachments = attachments
	if err := s.writeAnew(fresh); err != nil {
		return r, errors.Join(err, os.Remove(fresh))
	}
	if attachments != nil {
		// The extents must have the attachments durably before the log, which also has them, leaves its place.
		if err := attachments.Sync(); err != nil {
			return r, errors.Join(err, os.Remove(fresh))
		}
	}
	r.Kept, r.LogRecords, r.Aside, r.Lost = s.kept, s.records, aside, s.lost
	r.Follows = s.replica != nil
	if err := disk.MkdirAll(aside, 0o700); err != nil {
		return r, err
	}
	names := []string{path, logPath(path, 0), logPath(path, 1), markPath(path), Witness(path)}
	if r.Follows {
		names = names[:3] // the marks say where the replicated log must not end
	}
	for _, name := range names {
		to := filepath.Join(aside, filepath.Base(name))
		if name == path {
			err = os.Link(name, to) // so that the file exists at each moment
		} else {
			err = os.Rename(name, to)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
	}
	if err := disk.SyncDir(aside); err != nil {
		return r, err
	}
	if err := os.Rename(fresh, path); err != nil {
		return r, err
	}
	return r, disk.SyncDir(filepath.Dir(path))
}

// repairBatch is the size of a transaction of a repair, in bytes.
const repairBatch = 8 << 20

// salvage reads the intact data.
type salvage struct {
	path    string
	buckets []Bucket
	seeds   []uint32
	report  func(*DamageError)

	attachments Attachments // nil if those of the log are not needed

	id         string // "" if it cannot be read
	gen, group uint64 // the file is complete up to here, if its progress is known
	progress   bool
	closed     bool     // the file needs no log
	replicated bool     // its log is a replicated one
	replica    []byte   // its position there; nil unless no other file follows that log
	names      []string // the buckets that the file should have; nil if unknown
	kept       int
	records    int
	newest     uint64 // last group of the log
	lost       []Loss
}

func newSalvage(path string, buckets []Bucket, report func(*DamageError)) *salvage {
	s := &salvage{path: path, buckets: buckets, report: report}
	for _, b := range buckets {
		s.seeds = append(s.seeds, bucketSeed(b))
	}
	return s
}

func (s *salvage) damaged(problem string, args ...any) {
	s.report(&DamageError{File: filepath.Base(s.path), Problem: fmt.Sprintf(problem, args...)})
}

// run calls keep for every intact write: first those of the file, then those of the log, in order. Values have no
// checksums.
func (s *salvage) run(keep func(Bucket, Write) error) error {
	if err := lostFile(s.path); err != nil {
		return err
	}
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// The file was being created: nothing can have been acknowledged, as lostFile has found no mark.
	if info.Size() == 0 {
		return nil
	}
	// The format comes first: it says which buckets the file must have, and from where on the log counts.
	if err := s.format(f, info.Size()); err != nil {
		return err
	}
	st, err := bboltpage.CheckStructure(f, info.Size())
	if err != nil {
		s.damaged("%v", err)
	} else if have := slices.DeleteFunc(st.Buckets,
		func(b string) bool { return b == string(formatBucket) }); s.names != nil {
		if problem := bucketProblem(have, s.names); problem != "" {
			s.damaged("%s", problem)
		}
	}
	// Salvage has no way to stop early, so after an error of keep the remaining pairs are read and ignored.
	var failed error
	// rootless is set if a page was lost that cannot be assigned to a bucket. Then any bucket of which nothing else was
	// seen may have been on it, and counts as lost as a whole.
	seen, rootless := map[string]bool{}, false
	err = bboltpage.Salvage(f, info.Size(), func(bucket string, key, value []byte) {
		seen[bucket] = true
		if b, v, ok := s.value(Bucket(bucket), key, value); ok && failed == nil {
			s.kept++
			failed = keep(b, Write{key, v})
		}
	}, func(err error) { s.damaged("%v", err) }, func(l bboltpage.Lost) {
		seen[l.Bucket], rootless = true, rootless || l.Bucket == ""
		if l.Bucket != string(formatBucket) && l.Bucket != "" {
			s.lost = append(s.lost, Loss{Bucket: Bucket(l.Bucket), From: l.From, To: l.To, Values: l.Pairs, About: !l.Partly})
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	for _, b := range s.buckets {
		if rootless && !seen[string(b)] && (s.names == nil || slices.Contains(s.names, string(b))) {
			s.lost = append(s.lost, Loss{Bucket: b})
		}
	}
	// The log last: its writes are newer and replace those of the file.
	return s.logs(keep)
}

// format determines the id of the file, its buckets and its progress.
func (s *salvage) format(f *os.File, size int64) error {
	// The position counts only in a private view. Any other one can be built from the log or from a snapshot, so it
	// needs no place to go on from.
	var position []byte
	private := false
	defer func() {
		if private && s.id != "" {
			s.replica = position
		}
	}()
	// Not a read through the tree: the branch that leads to the format may be what is damaged.
	return bboltpage.Salvage(f, size, func(bucket string, key, value []byte) {
		if bucket != string(formatBucket) {
			return
		}
		if p, ok := unseal(formatSeed, key, value); ok && string(key) == string(idKey) {
			s.id = string(p)
		}
		if p, ok := unseal(formatSeed, key, value); ok && string(key) == string(bucketsKey) {
			s.names = bucketNames(p)
		}
		s.replicated = s.replicated || string(key) == string(replicaKey)
		if p, ok := unseal(formatSeed, key, value); ok && string(key) == string(replicaKey) {
			position = bytes.Clone(p)
		}
		private = private || string(key) == string(privateKey)
		if string(key) != string(logKey) {
			return
		}
		if p, ok := unseal(formatSeed, key, value); ok && len(p) == 17 {
			s.gen, s.group, s.progress = binary.BigEndian.Uint64(p), binary.BigEndian.Uint64(p[8:]), true
			s.closed = p[16] == 1
		}
	}, func(error) {}, nil)
}

// value verifies a pair of the file. If its bucket is not known, or wrong, the checksum determines it.
func (s *salvage) value(bucket Bucket, key, sealed []byte) (b Bucket, value []byte, ok bool) {
	if string(bucket) == string(formatBucket) {
		if _, ok := unseal(formatSeed, key, sealed); !ok {
			s.report(&DamageError{File: filepath.Base(s.path), Bucket: bucket, Key: bytes.Clone(key),
				Problem: "the checksum does not match"})
		}
		return "", nil, false
	}
	i := slices.Index(s.buckets, bucket)
	if i >= 0 {
		if value, ok := unseal(s.seeds[i], key, sealed); ok {
			return bucket, value, true
		}
		s.report(&DamageError{File: filepath.Base(s.path), Bucket: bucket, Key: bytes.Clone(key),
			Problem: "the checksum does not match"})
	}
	// A damaged branch can lead to a page of another bucket.
	for j, seed := range s.seeds {
		if value, ok := unseal(seed, key, sealed); ok {
			return s.buckets[j], value, true
		}
	}
	s.lost = append(s.lost, Loss{Bucket: bucket, From: bytes.Clone(key), Values: 1})
	if i < 0 {
		s.report(&DamageError{File: filepath.Base(s.path), Bucket: bucket, Key: bytes.Clone(key),
			Problem: "the checksum does not match"})
	}
	return "", nil, false
}

// logs reads the records that the file does not have, in the order of their groups.
func (s *salvage) logs(keep func(Bucket, Write) error) error {
	if err := s.newer(); err != nil {
		return err
	}
	var all []logRecord
	for i := range uint64(2) {
		p, err := os.ReadFile(logPath(s.path, i))
		if errors.Is(err, fs.ErrNotExist) {
			if s.progress && !s.closed && !s.replicated {
				s.report(missingLog(s.path, i))
			}
			continue
		}
		if err != nil {
			return err
		}
		gen := s.generation(p, i)
		if gen == 0 {
			continue
		}
		all = append(all, s.logRecords(p, gen)...)
	}
	// The files take turns, so file 1 may have the older generation.
	slices.SortStableFunc(all, func(a, b logRecord) int {
		if a.gen != b.gen {
			return int(int64(a.gen - b.gen))
		}
		return int(a.at - b.at)
	})
	s.newest = s.group
	for _, r := range all {
		// A damaged record has no number that could be trusted. The gap that it leaves shows at the next intact one.
		if s.progress && r.group != s.newest+1 && !r.partly {
			s.report(&DamageError{File: filepath.Base(logPath(s.path, r.gen)),
				Problem: fmt.Sprintf("offset %d: group %d follows group %d", r.at, r.group, s.newest)})
		}
		if !r.partly {
			s.newest = r.group
			s.records++
		}
		if err := s.apply(r, keep); err != nil {
			return err
		}
	}
	return s.checkMark()
}

// checkMark reports what the file and its log lack.
func (s *salvage) checkMark() error {
	m, ok, err := readMark(s.path)
	switch {
	case err == nil && s.replica != nil && s.progress && !s.closed && !ok:
		err = missingMark(s.path)
		s.lost = append(s.lost, Loss{Changes: true})
	case err != nil || s.replicated: // see EndOfLog
		return err
	// Without the progress the mark cannot be compared as a whole; its number still says how many changes are missing.
	case !s.progress:
		if ok && m.group > s.newest {
			s.lost = append(s.lost, Loss{Changes: true})
		}
	case !ok && !s.closed:
		err = missingMark(s.path)
		s.lost = append(s.lost, Loss{Changes: true}) // nothing says where the log should end
	case ok:
		id := s.id
		if id == "" {
			id = m.id // reported before
		}
		err = m.check(s.path, format{id: id, gen: s.gen, closed: s.closed}, s.newest)
		if m.group > s.newest {
			s.lost = append(s.lost, Loss{Values: int(m.group - s.newest), Changes: true})
		}
	}
	if d := (*DamageError)(nil); errors.As(err, &d) {
		s.report(d)
		return nil
	}
	return err
}

// newer reports a log that is newer than the file.
func (s *salvage) newer() error {
	if !s.progress {
		return nil
	}
	err := checkNewer(s.path, s.gen+2)
	if d := (*DamageError)(nil); errors.As(err, &d) {
		s.report(d)
		return nil
	}
	return err
}

// generation returns the generation of file i of the log if the main file lacks it, and 0 otherwise. If the progress of
// the main file is unknown, the first record determines the generation.
func (s *salvage) generation(p []byte, i uint64) uint64 {
	if s.progress {
		gen := s.gen + 1
		if gen%2 != i {
			gen++
		}
		return gen
	}
	if len(p) < logHeaderSize {
		return 0
	}
	return binary.LittleEndian.Uint64(p[8:])
}

// logRecords returns the records of a generation, and the readable parts of damaged records between them.
func (s *salvage) logRecords(p []byte, gen uint64) (records []logRecord) {
	for at := 0; ; {
		r, ok := parseRecord(p, at, gen)
		if ok {
			records = append(records, r)
			at += logHeaderSize + len(r.payload)
			continue
		}
		// A bad record at the end is what a crash leaves, and nothing had acknowledged it. It is damage if an intact record
		// follows, since each was synced before the next, or if a single bit is wrong: see flippedBit.
		next := nextRecord(p, at, gen)
		if next < 0 && !flippedBit(p, at, gen) {
			return records
		}
		end := next
		if next < 0 {
			end = min(at+logHeaderSize+int(binary.LittleEndian.Uint32(p[at:])), len(p))
		}
		bad := logRecord{gen: gen, at: int64(at), partly: true}
		if at+logHeaderSize < end {
			bad.payload = p[at+logHeaderSize : end]
		}
		s.report(&DamageError{File: filepath.Base(logPath(s.path, gen)),
			Problem: fmt.Sprintf("offset %d: a record is damaged", at)})
		records = append(records, bad)
		if next < 0 {
			return records
		}
		at = next
	}
}

// apply calls keep for the writes of a record; of a damaged record, for those whose values are intact.
func (s *salvage) apply(r logRecord, keep func(Bucket, Write) error) error {
	err := readPayload(r.payload, func(b Bucket, w Write) error {
		if b == attachedBucket {
			if s.attachments == nil {
				return nil
			}
			return s.attachments.Restore(w.Key, w.Value)
		}
		i := slices.Index(s.buckets, b)
		if i < 0 {
			return errPayload
		}
		if w.Deleted() {
			if r.partly {
				return nil // its key may be damaged
			}
			return keep(b, w)
		}
		value, ok := unseal(s.seeds[i], w.Key, w.Value)
		if !ok {
			s.report(&DamageError{File: filepath.Base(logPath(s.path, r.gen)), Bucket: b, Key: bytes.Clone(w.Key),
				Problem: "the checksum does not match"})
			s.lost = append(s.lost, Loss{Bucket: b, From: bytes.Clone(w.Key), Values: 1})
			return nil
		}
		s.kept++
		return keep(b, Write{w.Key, value})
	})
	// The rest of a damaged record does not parse. At least one change is lost, of unknown keys.
	if errors.Is(err, errPayload) && r.partly {
		s.lost = append(s.lost, Loss{Values: 1, About: true, Changes: true})
		return nil
	}
	return err
}

// writeAnew writes the intact data to a new file.
func (s *salvage) writeAnew(path string) (err error) {
	to, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoGrowSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	// No sync until the end: a repair that is interrupted leaves the old file in its place, and begins again.
	tx, err := to.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	for _, b := range s.buckets {
		if _, err := tx.CreateBucketIfNotExists([]byte(b)); err != nil {
			return err
		}
	}
	written := 0
	err = s.run(func(b Bucket, w Write) error {
		bucket := tx.Bucket([]byte(b))
		if w.Deleted() {
			return bucket.Delete(bytes.Clone(w.Key))
		}
		key := bytes.Clone(w.Key)
		if err := bucket.Put(key, appendSealed(nil, bucketSeed(b), key, w.Value)); err != nil {
			return err
		}
		if written += len(key) + len(w.Value); written < repairBatch {
			return nil
		}
		written = 0
		if err := tx.Commit(); err != nil {
			return err
		}
		// The deferred Rollback reads the variable, so it ends the newest transaction.
		tx, err = to.Begin(true)
		return err
	})
	if err != nil {
		return err
	}
	if err := putBuckets(tx); err != nil {
		return err
	}
	// Both generations that the log could hold are in the file now. It counts as closed, since its log is moved away.
	if err := putProgress(tx, s.gen+2, s.newest, true); err != nil {
		return err
	}
	// The id stays, so that a mark that stays in its place still belongs to the file.
	if err := putVersion(tx, s.id); err != nil {
		return err
	}
	if s.replica != nil {
		if err := errors.Join(putFormat(tx, replicaKey, s.replica), putFormat(tx, privateKey, nil)); err != nil {
			return err
		}
	}
	return errors.Join(tx.Commit(), to.Sync())
}
