package chaos

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// Histories in which a promise is broken are found, and right ones are accepted.
func TestHistoriesOfBlobs(t *testing.T) {
	t.Parallel()
	type event struct {
		from, to int64
		r        blobRequest
		a        blobAnswer
	}
	read := func(from, to int64, kind, value, etag string) event {
		return event{from, to, blobRequest{kind: kind, do: doRead}, blobAnswer{value: value, etag: etag}}
	}
	write := func(from, to int64, condition, value string, a blobAnswer) event {
		return event{from, to, blobRequest{kind: kindETag, do: doWrite, condition: condition, value: value}, a}
	}
	lease := func(from, to int64, do, id, value string, o outcome) event {
		return event{from, to, blobRequest{kind: kindLease, do: do, condition: id, value: value}, blobAnswer{outcome: o}}
	}
	add := func(from, to int64, position int, value string, o outcome) event {
		return event{from, to, blobRequest{kind: kindAppend, do: doAppend, position: position, value: value},
			blobAnswer{outcome: o}}
	}
	block := func(from, to int64, do, value string, o outcome) event {
		return event{from, to, blobRequest{kind: kindBlocks, do: do, value: value}, blobAnswer{outcome: o}}
	}
	for _, tt := range []struct {
		name  string
		right bool
		ops   []event
	}{
		{"overwritten once", true, []event{read(0, 1, kindETag, "", "e0"), write(2, 3, "e0", "a", blobAnswer{etag: "e1"}),
			read(4, 5, kindETag, "a", "e1")}},
		{"a stale read", false, []event{read(0, 1, kindETag, "", "e0"), write(2, 3, "e0", "a", blobAnswer{etag: "e1"}),
			read(4, 5, kindETag, "", "e0")}},
		{"a read during the write", true,
			[]event{read(0, 1, kindETag, "", "e0"), write(2, 9, "e0", "a", blobAnswer{etag: "e1"}),
				read(4, 5, kindETag, "", "e0")}},
		{"two writes on one ETag", false,
			[]event{read(0, 1, kindETag, "", "e0"), write(2, 3, "e0", "a", blobAnswer{etag: "e1"}),
				write(2, 3, "e0", "b", blobAnswer{etag: "e2"})}},
		{"one of two writes is refused", true,
			[]event{read(0, 1, kindETag, "", "e0"), write(2, 3, "e0", "a", blobAnswer{etag: "e1"}),
				write(2, 3, "e0", "b", blobAnswer{outcome: wasRefused})}},
		{"both are refused", false, []event{read(0, 1, kindETag, "", "e0"),
			write(2, 3, "e0", "a", blobAnswer{outcome: wasRefused})}},
		{"an unknown write that took effect late", true,
			[]event{read(0, 1, kindETag, "", "e0"), write(2, never, "e0", "a", blobAnswer{outcome: wasUnknown}),
				read(4, 5, kindETag, "", "e0"), read(6, 7, kindETag, "a", "e1")}},
		{"an unknown write that took effect and was undone", false,
			[]event{read(0, 1, kindETag, "", "e0"), write(2, never, "e0", "a", blobAnswer{outcome: wasUnknown}),
				read(4, 5, kindETag, "a", "e1"), read(6, 7, kindETag, "", "e0")}},
		{"two holders of a lease", false,
			[]event{lease(0, 1, doAcquire, "x", "", wasDone), lease(2, 3, doAcquire, "y", "", wasDone)}},
		{"a lease changes hands", true,
			[]event{lease(0, 1, doAcquire, "x", "", wasDone), lease(2, 3, doRelease, "x", "", wasDone),
				lease(4, 5, doAcquire, "y", "", wasDone), lease(6, 7, doWrite, "y", "a", wasDone)}},
		{"written without the lease", false,
			[]event{lease(0, 1, doAcquire, "x", "", wasDone), lease(2, 3, doWrite, "", "a", wasDone)}},
		{"written with a lease that was released", false,
			[]event{lease(0, 1, doAcquire, "x", "", wasDone), lease(2, 3, doRelease, "x", "", wasDone),
				lease(4, 5, doWrite, "x", "a", wasDone)}},
		{"two appends at one position", false, []event{add(0, 1, 0, "a", wasDone), add(2, 3, 0, "b", wasDone)}},
		{"an append is lost", false, []event{add(0, 1, 0, "a", wasDone), add(2, 3, -1, "b", wasDone),
			read(4, 5, kindAppend, "a", "")}},
		{"appends", true, []event{add(0, 1, 0, "a", wasDone), add(2, 3, 0, "b", wasRefused), add(2, 5, -1, "c", wasDone),
			read(6, 7, kindAppend, "a c", "")}},
		{"an append twice", false, []event{add(0, 1, -1, "a", wasDone), read(4, 5, kindAppend, "a a", "")}},
		{"a block list", true, []event{block(0, 1, doStage, "a", wasDone), block(2, 3, doStage, "b", wasDone),
			block(4, 5, doCommit, "a", wasDone), block(6, 7, doCommit, "a b", wasRefused), read(8, 9, kindBlocks, "a", "")}},
		{"a block that another commit has discarded", false,
			[]event{block(0, 1, doStage, "a", wasDone), block(2, 3, doStage, "b", wasDone), block(4, 5, doCommit, "a", wasDone),
				block(6, 7, doCommit, "a b", wasDone)}},
		{"a staged block is lost", false,
			[]event{block(0, 1, doStage, "a", wasDone), block(2, 3, doCommit, "a", wasRefused)}},
	} {
		var ops []porcupine.Operation
		for i, e := range tt.ops {
			ops = append(ops, porcupine.Operation{ClientId: i, Input: e.r, Call: e.from, Output: e.a, Return: e.to})
		}
		if right, decided := checkHistory(ops); right != tt.right || !decided {
			t.Errorf("%s: right %v, decided %v; want %v", tt.name, right, decided, tt.right)
		}
	}
}
