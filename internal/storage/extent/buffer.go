package extent

import (
	"sync"
	"sync/atomic"
	"time"
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
	large []byte // if it is one of maxLarge, the large page that bytes are in
}

// A direct write from a large page has one piece of memory for the disk, where one from small pages has 256, which lie
// anywhere: 64 MiB took 3.1 ms of processor time instead of 7.7. So some of the largest buffers are in large pages of
// their own. The process keeps these, and gives their memory back when none was freed for a while.
const (
	maxLarge  = 8
	largePage = 2 << 20
	largeWait = 10 * time.Second
)

var (
	large     = make(chan *buffer, maxLarge) // those that are free
	largeMade atomic.Int32
	largeIdle = time.AfterFunc(largeWait, discardLarge) // each large buffer that is freed starts it again
)

// discardLarge gives the memory of the free large buffers back to the system. They have zeros at their next use.
func discardLarge() {
	for range len(large) {
		select {
		case b := <-large:
			discardMemory(b.large)
			large <- b
		default: // the others were taken meanwhile
			return
		}
	}
}

// newLarge returns a buffer in a large page, nil if all are in use or the system has none.
func newLarge() *buffer {
	select {
	case b := <-large:
		return b
	default:
	}
	if largeMade.Load() >= maxLarge || largeMade.Add(1) > maxLarge {
		return nil
	}
	m, ok := mapMemory(2 * largePage)
	if !ok {
		return nil
	}
	p := aligned(m, largePage)[:largePage]
	adviseLarge(p)
	n := recordHeaderSize + MaxRecord + maxFiller
	return &buffer{bytes: p[:n:n], class: len(bufferSizes) - 1, large: p}
}

// aligned returns p from the first address on that is a multiple of n, a power of two.
func aligned(p []byte, n int) []byte {
	return p[-int(uintptr(unsafe.Pointer(unsafe.SliceData(p))))&(n-1):]
}

// newBuffer returns a buffer for at least size bytes of payload, or for MaxRecord if that is less.
func newBuffer(size int64) *buffer {
	class := 0
	for class < len(bufferSizes)-1 && int64(bufferSizes[class]) < size {
		class++
	}
	if class == len(bufferSizes)-1 {
		if b := newLarge(); b != nil {
			return b
		}
	}
	if b, _ := bufferPools[class].Get().(*buffer); b != nil {
		return b
	}
	n := recordHeaderSize + bufferSizes[class]
	if n < bulkThreshold {
		return &buffer{bytes: make([]byte, n), class: class}
	}
	n += maxFiller
	return &buffer{bytes: aligned(make([]byte, n+directAlign), directAlign)[:n:n], class: class}
}

func (b *buffer) capacity() int   { return bufferSizes[b.class] }
func (b *buffer) payload() []byte { return b.bytes[recordHeaderSize : recordHeaderSize+b.capacity()] }

func (b *buffer) free() {
	if b.large != nil {
		large <- b // as long as there are buffers in large pages
		largeIdle.Reset(largeWait)
		return
	}
	bufferPools[b.class].Put(b)
}
