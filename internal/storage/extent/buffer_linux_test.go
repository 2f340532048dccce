package extent

import "testing"

// The memory of large buffers goes back to the system while they are free, and of those in use it stays.
func TestDiscardLarge(t *testing.T) {
	var taken []*buffer
	for range maxLarge {
		b := newLarge()
		if b == nil {
			break // others of this process use them
		}
		b.bytes[0], b.bytes[len(b.bytes)-1] = 1, 1
		taken = append(taken, b)
	}
	if len(taken) < 2 {
		t.Skip("the system has no large pages, or other tests use all")
	}
	used := taken[0]
	for _, b := range taken[1:] {
		b.free()
	}
	discardLarge()
	if used.bytes[0] != 1 || used.bytes[len(used.bytes)-1] != 1 {
		t.Error("a buffer in use has lost its content")
	}
	used.free()
	for range len(taken) - 1 {
		b := newLarge()
		if b == nil {
			t.Fatal("a buffer is gone")
		}
		if b.bytes[0] != 0 || b.bytes[len(b.bytes)-1] != 0 {
			t.Error("a free buffer has kept its memory")
		}
		defer b.free()
	}
}
