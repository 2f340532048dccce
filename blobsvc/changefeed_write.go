package blobsvc

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/avro"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// The layout of the feed, with one shard and a segment for each hour:
//
//	meta/segments.json                              up to when segments are complete
//	idx/segments/1601/01/01/0000/meta.json          an empty segment, which Azure's feeds begin with
//	idx/segments/YYYY/MM/DD/HH00/meta.json          one segment: Publishing, then Finalized
//	log/00/YYYY/MM/DD/HH00/NNNNN.avro               its events
//
// A segment is finalized five minutes after its hour. What comes later for it goes to the next one: a reader that stops at
// lastConsumable never misses anything.
const (
	// feedBatch bounds the events of one Avro block, feedBatchSize their size in bytes, feedFileBlocks the blocks of one file.
	feedBatch      = 2000
	feedBatchSize  = 1 * mib
	feedFileBlocks = 10_000
	feedGrace      = 5 * time.Minute
)

// feedState is how far an account's feed is written, in the meta bucket.
type feedState struct {
	Hour  time.Time // of the segment that is open; zero for none
	File  int       // the file that is written
	Count int       // its blocks
	Done  time.Time // the hour of the last segment that is finalized; zero for none
	// Schema is the version of the schema at the head of the file; 0 for that of files that were begun before it was noted.
	Schema int `json:",omitempty"`
}

func feedStateKey(account string) []byte { return []byte("feed:" + account) }

func readFeedState(tx *store.Tx, account string) (st feedState, err error) {
	if v := tx.Get(metaBucket, feedStateKey(account)); v != nil {
		err = json.Unmarshal(v, &st)
	}
	return st, err
}

func (st *feedState) segment() string {
	return st.Hour.Format("idx/segments/2006/01/02/1500/meta.json")
}
func (st *feedState) folder() string { return st.Hour.Format("log/00/2006/01/02/1500/") }
func (st *feedState) file() string   { return st.folder() + fmt.Sprintf("%05d.avro", st.File) }

// writeFeeds moves recorded events to the files of their accounts' feeds, and finalizes segments that are over.
func (s *Service) writeFeeds(ctx context.Context, now time.Time) error {
	s.feedWriter.Lock()
	defer s.feedWriter.Unlock()
	var failed error
	for _, account := range s.accounts.Names() {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = s.writeFeed(account, now); err != nil {
				failed = errors.Join(failed, err)
				break
			}
		}
	}
	return failed
}

// writeFeed does one step for one account. more is set if there may be another to do.
func (s *Service) writeFeed(account string, now time.Time) (more bool, err error) {
	now = now.UTC()
	var st feedState
	var events []Event
	var keys [][]byte
	size := 0
	err = s.db.View(func(tx *store.Tx) (err error) {
		if st, err = readFeedState(tx, account); err != nil {
			return err
		}
		scope := append([]byte(account), 0)
		cur := tx.Cursor(changesBucket)
		for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
			f, err := decodeFeedEvent(k, v)
			if err != nil {
				return err
			}
			if len(events) == feedBatch || size > feedBatchSize {
				more = true
				break
			}
			events, keys, size = append(events, f), append(keys, bytes.Clone(k)), size+len(v)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	hour := now.Truncate(time.Hour)
	over := !st.Hour.IsZero() && now.Sub(st.Hour) >= time.Hour+feedGrace
	switch {
	case len(events) == 0 && !over:
		return false, nil
	case over:
		return true, s.finalizeSegment(account, st)
	}
	b := &feedStep{s: s, account: account, now: now}
	defer b.close()
	if st.Hour.IsZero() {
		if st.Done.IsZero() { // the feed begins
			b.begin(now)
		}
		st.Hour, st.File, st.Count = hour, 0, 0
		b.segment(&st, "Publishing")
	}
	if st.Count == feedFileBlocks || st.Count > 0 && st.Schema != feedSchemaVersion {
		st.File, st.Count = st.File+1, 0
	}
	st.Schema = feedSchemaVersion
	st.Count++
	b.events(&st, events)
	return more, b.commit(&st, keys)
}

// finalizeSegment closes the segment that is open.
func (s *Service) finalizeSegment(account string, st feedState) error {
	b := &feedStep{s: s, account: account, now: s.now()}
	defer b.close()
	b.segment(&st, "Finalized")
	b.segments(st.Hour)
	st.Done, st.Hour = st.Hour, time.Time{}
	return b.commit(&st, nil)
}

// feedStep is one transaction's worth of files: their bytes are made durable first.
type feedStep struct {
	s       *Service
	account string
	now     time.Time
	files   []feedFile
	err     error
}

// feedFile is a file that is written as a whole, or one that grows.
type feedFile struct {
	name, contentType string
	up                *content.Upload
	grow              bool
}

func (b *feedStep) close() {
	for _, f := range b.files {
		f.up.Close()
	}
}

func (b *feedStep) add(name, contentType string, text []byte, grow bool) {
	up, err := content.Store(b.s.extents, bytes.NewReader(text), int64(len(text)), content.Options{MD5: !grow})
	if err != nil {
		b.err = errors.Join(b.err, err)
		return
	}
	b.files = append(b.files, feedFile{name, contentType, up, grow})
}

func (b *feedStep) json(name string, v any) {
	text, err := json.MarshalIndent(v, "", "    ")
	b.err = errors.Join(b.err, err)
	b.add(name, "application/json", text, false)
}

// feedTime is the form of times in the feed's own documents.
const feedTime = "2006-01-02T15:04:05.000Z"

// segments writes meta/segments.json: everything before the end of the segment of an hour, the last that is finalized, can be read.
// Recorded feeds of Azure name that end: clients read the segments that begin before it.
func (b *feedStep) segments(hour time.Time) {
	b.json("meta/segments.json", map[string]any{
		"version": 0, "lastConsumable": hour.Add(time.Hour).Format(feedTime),
		"storageDiagnostics": map[string]any{"version": 0, "lastModifiedTime": b.now.UTC().Format(feedTime), "data": map[string]any{"aid": b.account, "lfz": hour.Format(feedTime)}},
	})
}

func (b *feedStep) begin(now time.Time) {
	first := feedState{Hour: time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC)}
	b.document(&first, "Finalized", []string{})
	b.segments(now.Truncate(time.Hour).Add(-time.Hour))
}

func (b *feedStep) segment(st *feedState, status string) {
	b.document(st, status, []string{ChangeFeedContainer + "/" + st.folder()})
}

func (b *feedStep) document(st *feedState, status string, paths []string) {
	b.json(st.segment(), map[string]any{
		"version": 0, "begin": st.Hour.Format(feedTime), "intervalSecs": 3600, "status": status,
		"config": map[string]any{"version": 0, "configVersionEtag": "0x8d698f0fba563db", "numShards": 1, "recordsFormat": "avro",
			"formatSchemaVersion": feedSchemaVersion, "shardDistFnVersion": 1},
		"chunkFilePaths":     paths,
		"storageDiagnostics": map[string]any{"version": 0, "lastModifiedTime": b.now.UTC().Format(feedTime), "data": map[string]any{"aid": b.account}},
	})
}

// events adds an Avro block to the open file, after the file's head if it is the first. The marker between blocks follows from
// the file's name, so it need not be stored.
func (b *feedStep) events(st *feedState, events []Event) {
	marker := avro.Marker(md5.Sum([]byte(b.account + "/" + st.file())))
	var out, records []byte
	if st.Count == 1 {
		out = avro.AppendHeader(out, feedSchema, marker)
	}
	for i := range events {
		records = events[i].appendAvro(records)
	}
	out = avro.AppendBlock(out, len(events), records, marker)
	b.add(st.file(), "application/octet-stream", out, true)
}

// commit puts the files in place, and takes the events that are in them from the changes bucket.
func (b *feedStep) commit(st *feedState, keys [][]byte) error {
	if b.err != nil {
		return b.err
	}
	state, err := json.Marshal(st)
	if err != nil {
		return err
	}
	times := make([]ticks.Ticks, len(b.files))
	for i := range times {
		times[i] = b.s.ticks.Next(b.now)
	}
	return b.s.db.Update(func(tx *store.Tx) error {
		gen, err := containerGen(tx, b.account, ChangeFeedContainer)
		if errors.Is(err, errContainerNotFound) {
			rec := Container{generation: nextID(tx), Changed: times[0]}
			putContainer(tx, b.account, ChangeFeedContainer, &rec)
			gen, err = rec.generation, nil
		}
		if err != nil {
			return err
		}
		for i, f := range b.files {
			if err := f.put(tx, gen, times[i]); err != nil {
				return err
			}
		}
		for _, k := range keys {
			tx.Delete(changesBucket, k)
		}
		tx.Put(metaBucket, feedStateKey(b.account), state)
		return nil
	})
}

// put stores a file's record.
func (f *feedFile) put(tx *store.Tx, gen uint64, at ticks.Ticks) error {
	var old Blob
	err := getBlob(tx, gen, f.name, baseSlot, &old)
	there := err == nil
	if err != nil && err != errBlobNotFound {
		return err
	}
	b := Blob{Kind: BlockBlob, Created: at, Changed: at, Headers: Headers{ContentType: f.contentType}}
	switch {
	case !f.grow:
		if there {
			b.Created = old.Created
			old.content.drop(tx)
		}
		b.Headers.MD5 = string(f.up.MD5)
		b.content, b.Length = layOut(tx, f.up.Pieces())
	default:
		if b.Kind = AppendBlob; there {
			b = old
			b.Changed = at
		} else {
			b.content = newContent(tx)
		}
		p := f.up.Pieces()
		p[0].Start = b.Length
		putPieces(tx, b.content.id, p)
		b.Length += f.up.Length
		b.Blocks++
	}
	putBlob(tx, gen, f.name, baseSlot, &b)
	return nil
}
