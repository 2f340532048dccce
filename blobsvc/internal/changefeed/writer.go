package changefeed

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/avro"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// The layout of the feed, with one shard and a segment for each hour:
//
//	meta/segments.json                              up to when segments are complete
//	idx/segments/1601/01/01/0000/meta.json          an empty segment, which Azure's feeds begin with
//	idx/segments/YYYY/MM/DD/HH00/meta.json          one segment: Publishing, then Finalized
//	log/00/YYYY/MM/DD/HH00/NNNNN.avro               its events
//
// A segment is finalized five minutes after its hour. Events that are recorded later go to the next segment, so a
// reader that stops at lastConsumable misses nothing.
const (
	// maxEvents bounds the events of one Avro block, maxEventBytes their size in bytes, maxBlocks the blocks of one file.
	maxEvents     = 2000
	maxEventBytes = 1 << 20
	maxBlocks     = 10_000
	// grace is the time after its hour at which a segment is finalized.
	grace = 5 * time.Minute
)

// Writer writes the change feeds of accounts.
type Writer struct {
	State *state.Store
	mu    sync.Mutex // held while feeds are written
}

// progress is the position up to which an account's feed is written. It is stored as JSON.
type progress struct {
	Hour  time.Time // of the open segment; zero for none
	File  int       // the current file
	Count int       // its blocks
	Done  time.Time // the hour of the last segment that is finalized; zero for none
	// Schema is the version of the schema at the head of the file; 0 for files of releases that did not record it.
	Schema int `json:",omitempty"`
}

func (st *progress) segment() string {
	return st.Hour.Format("idx/segments/2006/01/02/1500/meta.json")
}
func (st *progress) folder() string { return st.Hour.Format("log/00/2006/01/02/1500/") }
func (st *progress) file() string   { return st.folder() + fmt.Sprintf("%05d.avro", st.File) }

// Write moves recorded events to the files of the accounts' feeds, and finalizes segments that are over.
func (w *Writer) Write(ctx context.Context, accounts []string, now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var failed error
	for _, account := range accounts {
		for more := true; more && ctx.Err() == nil; {
			var err error
			more, err = w.writeSome(account, now.UTC())
			if errors.Is(err, state.ErrFeedMoved) {
				break
			}
			if err != nil {
				failed = errors.Join(failed, err)
				break
			}
		}
	}
	return failed
}

// writeSome does one step for one account. more is set if there may be another to do.
func (w *Writer) writeSome(account string, now time.Time) (more bool, err error) {
	var st progress
	text, err := w.State.Feed.State(account)
	if err == nil && text != nil {
		err = json.Unmarshal(text, &st)
	}
	if err != nil {
		return false, err
	}
	events, more, err := w.State.Feed.Events(account, maxEvents, maxEventBytes)
	if err != nil {
		return false, err
	}
	b := &batch{state: w.State, account: account, now: now, before: text}
	defer b.close()
	over := !st.Hour.IsZero() && now.Sub(st.Hour) >= time.Hour+grace
	switch {
	case len(events) == 0 && !over:
		return false, nil
	case over:
		b.segment(&st, "Finalized")
		b.segments(st.Hour)
		st.Done, st.Hour = st.Hour, time.Time{}
		return true, b.commit(&st, nil)
	}
	if st.Hour.IsZero() {
		if st.Done.IsZero() { // the feed begins
			b.begin()
		}
		st.Hour, st.File, st.Count = now.Truncate(time.Hour), 0, 0
		b.segment(&st, "Publishing")
	}
	if st.Count == maxBlocks || st.Count > 0 && st.Schema != schemaVersion {
		st.File, st.Count = st.File+1, 0
	}
	st.Schema = schemaVersion
	st.Count++
	b.events(&st, events)
	return more, b.commit(&st, events)
}

// batch is one transaction's worth of files. Their bytes are made durable first.
type batch struct {
	state   *state.Store
	account string
	now     time.Time
	before  []byte // the state of the writer
	files   []state.FeedFile
	err     error
}

func (b *batch) close() {
	for _, f := range b.files {
		f.Content.Close()
	}
}

// add adds a file that is written as a whole, or grows by text.
func (b *batch) add(name, contentType string, text []byte, grow bool) {
	up, err := content.Store(b.state.Extents(), bytes.NewReader(text), int64(len(text)), content.Options{MD5: !grow})
	if err != nil {
		b.err = errors.Join(b.err, err)
		return
	}
	b.files = append(b.files, state.FeedFile{Name: name, ContentType: contentType, Content: up, Append: grow})
}

func (b *batch) json(name string, v any) {
	text, err := json.MarshalIndent(v, "", "    ")
	b.err = errors.Join(b.err, err)
	b.add(name, "application/json", text, false)
}

// feedTime is the form of times in the feed's documents.
const feedTime = "2006-01-02T15:04:05.000Z"

// segments writes meta/segments.json: everything before the end of the segment of an hour, the last that is finalized,
// can be read. Recorded feeds of Azure name that end: clients read the segments that begin before it.
func (b *batch) segments(hour time.Time) {
	b.json("meta/segments.json", map[string]any{
		"version": 0, "lastConsumable": hour.Add(time.Hour).Format(feedTime),
		"storageDiagnostics": map[string]any{"version": 0, "lastModifiedTime": b.now.Format(feedTime),
			"data": map[string]any{"aid": b.account, "lfz": hour.Format(feedTime)}},
	})
}

// begin writes the documents that a feed begins with.
func (b *batch) begin() {
	first := progress{Hour: time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC)}
	b.document(&first, "Finalized", []string{})
	b.segments(b.now.Truncate(time.Hour).Add(-time.Hour))
}

func (b *batch) segment(st *progress, status string) {
	b.document(st, status, []string{record.ChangeFeedContainer + "/" + st.folder()})
}

func (b *batch) document(st *progress, status string, paths []string) {
	b.json(st.segment(), map[string]any{
		"version": 0, "begin": st.Hour.Format(feedTime), "intervalSecs": 3600, "status": status,
		"config": map[string]any{"version": 0, "configVersionEtag": "0x8d698f0fba563db", "numShards": 1,
			"recordsFormat":       "avro",
			"formatSchemaVersion": schemaVersion, "shardDistFnVersion": 1},
		"chunkFilePaths": paths,
		"storageDiagnostics": map[string]any{"version": 0, "lastModifiedTime": b.now.Format(feedTime),
			"data": map[string]any{"aid": b.account}},
	})
}

// events adds an Avro block to the open file, after the file's header if it is the first. The marker between blocks
// follows from the file's name, so it need not be stored.
func (b *batch) events(st *progress, events []record.Event) {
	marker := avro.Marker(md5.Sum([]byte(b.account + "/" + st.file())))
	var out, records []byte
	if st.Count == 1 {
		out = avro.AppendHeader(out, schema, marker)
	}
	for i := range events {
		records = appendRecord(records, &events[i])
	}
	out = avro.AppendBlock(out, len(events), records, marker)
	b.add(st.file(), "application/octet-stream", out, true)
}

// commit puts the files in place.
func (b *batch) commit(st *progress, events []record.Event) error {
	if b.err != nil {
		return b.err
	}
	text, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return b.state.Feed.Commit(&state.FeedCommit{Account: b.account, Files: b.files, Events: events, Before: b.before,
		State: text}, ticks.Of(b.now))
}
