package blobpages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
)

// parquetRows are the first rows of a Parquet file, by Query Blob Contents.
func (d *blobPages) parquetRows(ctx context.Context, address string) ([][]string, error) {
	// One more than is shown, so that the page can say that there are more.
	const request = `<?xml version="1.0" encoding="utf-8"?><QueryRequest><QueryType>SQL</QueryType><Expression>SELECT * FROM BlobStorage LIMIT 21</Expression>` +
		`<InputSerialization><Format><Type>parquet</Type></Format></InputSerialization>` +
		`<OutputSerialization><Format><Type>json</Type><JsonTextConfiguration><RecordSeparator>` + "\n" +
		`</RecordSeparator></JsonTextConfiguration></Format></OutputSerialization></QueryRequest>`
	hr, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"?comp=query", strings.NewReader(request))
	if err != nil {
		return nil, err
	}
	hr.Header.Set("x-ms-version", "2021-12-02")
	// In this process, without signature: the transport is the account's own.
	resp, err := d.Backend().Transport().RoundTrip(hr)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	// 21 rows may have cells of any size.
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("query: %s", resp.Status)
	}
	text, err := resultData(answer)
	if err != nil {
		return nil, err
	}
	return jsonRows(text)
}

// jsonRows makes a table of JSON objects, one a line. Its columns are the members of the first one.
func jsonRows(text []byte) (rows [][]string, err error) {
	var head []string
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var object map[string]any
		if err := json.Unmarshal(line, &object); err != nil {
			return nil, err
		}
		// JSON objects have no order, so columns are sorted; the file's own order is not in the answer.
		if head == nil {
			for name := range object {
				head = append(head, name)
			}
			sort.Strings(head)
			head = head[:min(len(head), previewCells)]
			rows = append(rows, head)
		}
		row := make([]string, len(head))
		for i, name := range head {
			if v := object[name]; v != nil {
				row[i] = fmt.Sprint(v)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

var errAvro = errors.New("the answer of the query cannot be read")

// resultData takes the result's bytes out of the Avro container that Query Blob Contents answers with: blocks of
// records, of which those with the schema com.microsoft.azure.storage.queryBlobContents.resultData hold bytes.
// https://learn.microsoft.com/rest/api/storageservices/query-blob-contents#response-body
func resultData(answer []byte) (out []byte, err error) {
	a := &avro{rest: answer}
	if !bytes.HasPrefix(answer, []byte("Obj\x01")) {
		return nil, errAvro
	}
	a.rest = a.rest[4:]
	for n := a.long(); n != 0 && a.err == nil; n = a.long() { // the head's metadata
		if n < 0 {
			n = -n
			a.long()
		}
		for ; n > 0 && a.err == nil; n-- {
			a.bytes()
			a.bytes()
		}
	}
	a.take(16)
	for len(a.rest) > 0 && a.err == nil {
		records := a.long()
		block := &avro{rest: a.bytes()}
		a.take(16)
		for ; records > 0 && block.err == nil; records-- {
			switch block.long() { // the union's branch
			case 0:
				out = append(out, block.bytes()...)
			case 1: // error: fatal, name, description, position
				block.take(1)
				return nil, fmt.Errorf("query: %s: %s", block.bytes(), block.bytes())
			case 2: // progress: bytes scanned, total bytes
				block.long()
				block.long()
			case 3: // end: total bytes
				block.long()
			default:
				return nil, errAvro
			}
		}
		if block.err != nil {
			return nil, block.err
		}
	}
	return out, a.err
}

// avro reads the values of Avro's binary encoding.
type avro struct {
	rest []byte
	err  error
}

func (a *avro) long() int64 {
	var v uint64
	for shift := 0; shift < 64 && a.err == nil; shift += 7 {
		b := a.take(1)
		if len(b) == 0 {
			return 0
		}
		v |= uint64(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			return int64(v>>1) ^ -int64(v&1)
		}
	}
	a.err = errAvro
	return 0
}

func (a *avro) bytes() []byte { return a.take(a.long()) }

func (a *avro) take(n int64) []byte {
	if n < 0 || n > int64(len(a.rest)) {
		a.err = errAvro
		a.rest = nil
		return nil
	}
	out := a.rest[:n]
	a.rest = a.rest[n:]
	return out
}
