package extent

import (
	"sync"
	"unsafe"
)

// bufferSizes are the payloads that pooled buffers hold, ascending. The odd half KiB lets a reader find the end of
// content of a round length without a larger buffer.
var bufferSizes = [...]int{4<<10 + 512, 16<<10 + 512, 64<<10 + 512, 256<<10 + 512, MaxRecord}

var bufferPools [len(bufferSizes)]sync.Pool

// buffer holds one record with its header. If it is large enough for a bulk lane, it can be written directly: its
// address is a multiple of directAlign, and behind the record is room for filler.
type buffer struct {
	bytes []byte
	class int
}

// newBuffer returns a buffer for at least size bytes of payload, or for MaxRecord if that is less.
func newBuffer(size int64) *buffer {
	class := 0
	for class < len(bufferSizes)-1 && int64(bufferSizes[class]) < size {
		class++
	}
	if b, _ := bufferPools[class].Get().(*buffer); b != nil {
		return b
	}
	n := recordHeaderSize + bufferSizes[class]
	if n < bulkThreshold {
		return &buffer{bytes: make([]byte, n), class: class}
	}
	n += maxFiller
	b := make([]byte, n+directAlign)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (directAlign - 1)
	return &buffer{bytes: b[skip : skip+n : skip+n], class: class}
}

func (b *buffer) capacity() int   { return bufferSizes[b.class] }
func (b *buffer) payload() []byte { return b.bytes[recordHeaderSize : recordHeaderSize+b.capacity()] }
func (b *buffer) free()           { bufferPools[b.class].Put(b) }
