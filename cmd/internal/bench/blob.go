package bench

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
)

const (
	smallBlob = 4 << 10
	largeBlob = 64 << 20
	hugeBlob  = 1 << 30
	blockSize = 8 << 20
	listPage  = 5000 // the most names that the protocol allows in one page
	// largeConns caps the connections of the 64 MiB workloads: their sum is limited by copying, not by waiting.
	largeConns = 4
)

func blobWorkloads() []*Workload {
	// At least one blob, or a reader without preload would have nothing to read.
	small := func(e *env) error { return e.needSmallBlobs(max(e.preload.Blobs, 1)) }
	return []*Workload{{
		Name: "blob-put-4k", About: "Put Blob, 4 KiB, always a new name",
		Bytes: smallBlob, prepare: func(e *env) error { return e.needContainer() },
		worker: func(e *env, i int) worker { return newBlobPutter(e, i, smallBlob) },
	}, {
		Name: "blob-get-4k", About: "Get Blob, 4 KiB, uniformly random among the preloaded blobs",
		Bytes: smallBlob, prepare: small,
		worker: func(e *env, i int) worker { return newBlobGetter(e, i, 'b', e.blobs.small) },
	}, {
		// Four names per connection bound the disk that a run needs; new names would fill it within seconds.
		Name: "blob-put-64m", About: "64 MiB as 8 Put Block of 8 MiB and a Put Block List, overwriting 4 names per " +
			"connection in turn",
		Bytes: largeBlob, MaxConns: largeConns, prepare: func(e *env) error { return e.needContainer() },
		worker: func(e *env, i int) worker { return newBlockPutter(e, i, largeBlob) },
	}, {
		Name: "blob-put-64m-single", About: "64 MiB in one Put Blob, always a new name", Extra: true,
		// A limit of connections: each holds 64 MiB, and more of them would measure memory.
		Bytes: largeBlob, MaxConns: 2 * largeConns, prepare: func(e *env) error { return e.needContainer() },
		worker: func(e *env, i int) worker { return newBlobPutter(e, i, largeBlob) },
	}, {
		Name: "blob-put-1g", About: "1 GiB as 128 Put Block of 8 MiB and a Put Block List, on all connections at once",
		Extra: true,
		Bytes: hugeBlob, prepare: func(e *env) error { return e.needContainer() },
		worker: func(e *env, i int) worker { return newBlockPutter(e, i, hugeBlob) },
	}, {
		Name: "blob-get-64m", About: "Get Blob of 64 MiB, whole",
		Bytes: largeBlob, MaxConns: largeConns, prepare: func(e *env) error { return e.needLargeBlobs() },
		worker: func(e *env, i int) worker { return newBlobGetter(e, i, 'l', e.blobs.large) },
	}, {
		Name: "list-10000", About: "List Blobs in pages of 5,000 of a container with 10,000 blobs (or the preloaded " +
			"number); an operation is a page",
		Items: listPage, Unit: "blobs",
		prepare: func(e *env) error { return e.needSmallBlobs(max(e.preload.Blobs, listTotal)) },
		worker:  func(e *env, _ int) worker { return newLister(e) },
	}}
}

func (e *env) createContainer(name string) error {
	create := NewRequest(Blob, "PUT", "create", 201)
	create.Path, create.Query = []byte("/"+name), []Param{{"restype", []byte("container")}}
	if err := e.once(create); err != nil {
		return fmt.Errorf("creating container %s: %w", name, err)
	}
	drop := NewRequest(Blob, "DELETE", "drop", 202)
	drop.Path, drop.Query = create.Path, create.Query
	e.onCleanup(drop)
	return nil
}

// needContainer makes the container of preloaded blobs, and another for those that workloads write: listing must find
// nothing but the former.
func (e *env) needContainer() error {
	if e.blobs != nil {
		return nil
	}
	set := &blobSet{container: "bench-" + e.run}
	for _, name := range []string{set.container, set.container + "-w", set.container + "-l"} {
		if err := e.createContainer(name); err != nil {
			return err
		}
	}
	e.blobs = set
	return nil
}

func (e *env) needSmallBlobs(n int) error {
	if err := e.needContainer(); err != nil {
		return err
	}
	first := e.blobs.small
	n = (n + listPage - 1) / listPage * listPage // so that every page is full
	if n <= first {
		return nil
	}
	err := load(e, "small blobs", n-first,
		func(conn int) *Request { return newPutBlob(e, conn, smallBlob) },
		func(c *Conn, r *Request, i int) error {
			r.Path = appendPadded(append(append(r.Path[:0], '/'), e.blobs.container+"/"...), 'b', first+i, 6)
			_, err := c.Do(r)
			return err
		})
	e.blobs.small = n
	return err
}

func (e *env) needLargeBlobs() error {
	if err := e.needContainer(); err != nil {
		return err
	}
	if e.blobs.large > 0 {
		return nil
	}
	p := newBlockPutter(e, 0, largeBlob)
	for i := range largeConns {
		p.blob = appendPadded([]byte("/"+e.blobs.container+"-l/"), 'l', i, 6)
		if err := p.send(e.conns[0]); err != nil {
			return fmt.Errorf("loading large blobs into %s: %w", e.target.Name, err)
		}
	}
	e.blobs.large = largeConns
	return nil
}

// randomBytes returns n incompressible bytes.
func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		v := rng.Uint64()
		b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
	}
	return b[:n]
}

func newPutBlob(e *env, conn, size int) *Request {
	r := NewRequest(Blob, "PUT", "put", 201, Field{"Content-Type", "application/octet-stream"},
		Field{"x-ms-blob-type", "BlockBlob"})
	r.Body = randomBytes(e.rand(conn), size)
	return r
}

// blobPutter writes whole blobs under new names.
type blobPutter struct {
	req  *Request
	base []byte
	n    int
}

func newBlobPutter(e *env, conn, size int) *blobPutter {
	w := &blobPutter{req: newPutBlob(e, conn, size)}
	w.base = fmt.Appendf(nil, "/%s-w/s%d-%03d-", e.blobs.container, size, conn)
	return w
}

func (w *blobPutter) do(c *Conn) error {
	w.req.Path = appendPadded(append(w.req.Path[:0], w.base...), 'n', w.n, 7)
	w.n++
	_, err := c.Do(w.req)
	return err
}

// blobGetter reads whole blobs by random name.
type blobGetter struct {
	req    *Request
	rng    *rand.Rand
	base   []byte
	letter byte
	n      int
}

func newBlobGetter(e *env, conn int, letter byte, n int) *blobGetter {
	w := &blobGetter{req: NewRequest(Blob, "GET", "get", 200), rng: e.rand(conn), letter: letter, n: n}
	w.base = []byte("/" + e.blobs.container + "/")
	if letter == 'l' {
		w.base = []byte("/" + e.blobs.container + "-l/")
	}
	return w
}

func (w *blobGetter) do(c *Conn) error {
	w.req.Path = appendPadded(append(w.req.Path[:0], w.base...), w.letter, w.rng.IntN(w.n), 6)
	_, err := c.Do(w.req)
	return err
}

// blockPutter writes blobs in blocks, one after another on its connection.
type blockPutter struct {
	block, list *Request
	blob        []byte
	data        []byte
	ids         [][]byte
	conn, n     int
	base        []byte
}

func newBlockPutter(e *env, conn, size int) *blockPutter {
	w := &blockPutter{
		block: NewRequest(Blob, "PUT", "block", 201, Field{"Content-Type", "application/octet-stream"}),
		list:  NewRequest(Blob, "PUT", "list", 201, Field{"Content-Type", "application/xml"}),
		conn:  conn,
		data:  randomBytes(e.rand(conn), blockSize),
	}
	w.block.Query = []Param{{Name: "blockid"}, {"comp", []byte("block")}}
	w.list.Query = []Param{{"comp", []byte("blocklist")}}
	w.base = fmt.Appendf(nil, "/%s-w/m%d-%03d-", e.blobs.container, size, conn)
	b := []byte(`<?xml version="1.0" encoding="utf-8"?><BlockList>`)
	for i := range size / blockSize {
		id := base64.StdEncoding.AppendEncode(nil, fmt.Appendf(nil, "block-%06d", i))
		w.ids = append(w.ids, id)
		b = append(append(append(b, "<Latest>"...), id...), "</Latest>"...)
	}
	w.list.Body = append(b, "</BlockList>"...)
	return w
}

func (w *blockPutter) do(c *Conn) error {
	w.blob = appendPadded(append(w.blob[:0], w.base...), 'n', w.n%4, 2)
	w.n++
	return w.send(c)
}

func (w *blockPutter) send(c *Conn) error {
	w.block.Path = append(w.block.Path[:0], w.blob...)
	w.block.Body = w.data
	for _, id := range w.ids {
		w.block.Query[0].Value = id
		if _, err := c.Do(w.block); err != nil {
			return err
		}
	}
	w.list.Path = append(w.list.Path[:0], w.blob...)
	_, err := c.Do(w.list)
	return err
}

// lister pages through the container of small blobs, again and again.
type lister struct {
	req         *Request
	first, next []Param
}

var errShortPage = errors.New("page with fewer items than asked for")

func newLister(e *env) *lister {
	comp, restype := Param{"comp", []byte("list")}, Param{"restype", []byte("container")}
	pageSize := Param{"maxresults", strconv.AppendInt(nil, listPage, 10)}
	w := &lister{req: NewRequest(Blob, "GET", "page", 200)}
	w.req.Path, w.req.Keep = []byte("/"+e.blobs.container), true
	w.first = []Param{comp, pageSize, restype}
	w.next = []Param{comp, {Name: "marker"}, pageSize, restype}
	w.req.Query = w.first
	return w
}

func (w *lister) do(c *Conn) error {
	res, err := c.Do(w.req)
	if err != nil {
		return err
	}
	if bytes.Count(res.Body, []byte("<Blob>")) < listPage {
		return errShortPage
	}
	w.req.Query = w.first
	if marker := textAfterN(res.Body, "<NextMarker>", 2048); len(marker) > 0 {
		w.next[1].Value = append(w.next[1].Value[:0], marker...)
		w.req.Query = w.next
	}
	return nil
}
