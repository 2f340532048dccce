package extent

import "sync"

// bufferSizes are the payloads that pooled buffers hold, ascending. The odd half KiB lets a reader find the end of
// content of a round length without a larger buffer.
var bufferSizes = [...]int{4<<10 + 512, 16<<10 + 512, 64<<10 + 512, 256<<10 + 512, MaxRecord}

var bufferPools [len(bufferSizes)]sync.Pool

// buffer holds one record with its header.
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
	return &buffer{bytes: make([]byte, recordHeaderSize+bufferSizes[class]), class: class}
}

func (b *buffer) capacity() int   { return bufferSizes[b.class] }
func (b *buffer) payload() []byte { return b.bytes[recordHeaderSize:] }
func (b *buffer) free()           { bufferPools[b.class].Put(b) }
