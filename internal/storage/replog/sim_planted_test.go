package replog

import (
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/simulate"
)

// TestPlantedFaults proves that the simulation finds faults of the kinds that it looks for, each within 1,000 seeds.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	simulate.PlantedFaults(t, plantedFaults, func(file string) bool { return strings.HasPrefix(file, "sim_") },
		"-test.run=^TestSimulation$", "-sim.seeds=1000", "-sim.minimise=false")
}

var plantedFaults = []simulate.Planted{
	{Name: "the predecessor is ignored", File: "process.go",
		Old: `valid := complete && h.prev == l.pos.Last && h.chain == l.pos.Chain`,
		New: `valid := complete && (planted("the predecessor is ignored") ||
		h.prev == l.pos.Last && h.chain == l.pos.Chain)`},
	{Name: "a loss of the end is not looked for", File: "verify.go",
		Old: `func (l *Log) compares() bool { return l.config.Term != nil }`,
		New: `func (l *Log) compares() bool {
	return l.config.Term != nil && !planted("a loss of the end is not looked for")
}`},
	{Name: "a new term is not compared", Seed: 204, File: "verify.go",
		Old: `v.doubt == 0 && v.term == term`,
		New: `v.doubt == 0 && (v.term == term || planted("a new term is not compared"))`},
	{Name: "what had no effect is not read again", Seed: 1033, File: "follow.go",
		Old: `p.Seq, p.Log, p.Resume = p.Last, p.Last, min(p.Resume, p.Last)`,
		New: `if !planted("what had no effect is not read again") {
		p.Seq, p.Log, p.Resume = p.Last, p.Last, min(p.Resume, p.Last)
	}`},
	{Name: "the log is cut at the newest snapshot", File: "snapshot.go",
		Old: `return l.Purge(ctx, old)`,
		New: `if planted("the log is cut at the newest snapshot") {
		return l.Purge(ctx, p)
	}
	return l.Purge(ctx, old)`},
	{Name: "an older snapshot replaces a newer one", Seed: 39, File: "snapshot.go",
		Old: `if old.Seq > p.Seq {`,
		New: `if old.Seq > p.Seq && !planted("an older snapshot replaces a newer one") {`},
	{Name: "an append is acknowledged when it is stored", File: "append.go",
		Old: `			l.offer(seq, a.data)
			l.checkProcessed(seq, func() bool { return a.resolved || a.seen })`,
		New: `			if planted("an append is acknowledged when it is stored") {
				return nil
			}
			l.offer(seq, a.data)
			l.checkProcessed(seq, func() bool { return a.resolved || a.seen })`},
	{Name: "a refusal is taken for the outcome", Seed: 12, File: "append.go",
		Old: `l.look() // it is not in the stream, or an earlier copy of it is`,
		New: `if planted("a refusal is taken for the outcome") && errors.Is(err, errRefused) {
				return ErrConflict
			}
			l.look()`},
	{Name: "an unknown outcome is reported as a failure", Seed: 51, File: "pending.go",
		Old: `	case a.sent:
		return a.give(ErrUnknown)`,
		New: `	case a.sent && !planted("an unknown outcome is reported as a failure"):
		return a.give(ErrUnknown)`},
	{Name: "each attempt has a new number", Seed: 51, File: "append.go",
		Old: `		seq, err := l.publishRecord(a)`,
		New: `		if planted("each attempt has a new number") && !a.begun {
			l.mu.Lock()
			a.header.counter = l.counter.Add(1)
			a.data = encode(a.header, a.data[headerSize:])
			l.mu.Unlock()
		}
		seq, err := l.publishRecord(a)`},
	{Name: "a guess is valid after any record at its place", File: "process.go",
		Old: `h.prev == l.pos.Last && h.chain == l.pos.Chain)`, // of the first fault
		New: `h.prev == l.pos.Last && (h.chain == l.pos.Chain ||
		h.guessed && planted("a guess is valid after any record at its place")))`},
	{Name: "what was built on a failed append goes on", Seed: 19, File: "pending.go",
		Old: `		return ErrConflict
	case after != nil && !after.resolved:`,
		New: `		if !planted("what was built on a failed append goes on") {
			return ErrConflict
		}
		a.header.prev, a.header.chain = l.pos.Last, l.pos.Chain
		a.data = encode(a.header, payload)
		a.seq, a.sum, a.extends = at, sumOf(a.data), true
		l.pending = append(l.pending, a)
		l.promoteLocked()
		return nil
	case after != nil && !after.resolved:`},
	{Name: "an append is acknowledged with the one after it", Seed: 141, File: "pending.go",
		Old: `		case valid:
			a.seq = seq`,
		New: `		case h.guessed && planted("an append is acknowledged with the one after it"):
			a.resolve(nil)
		case valid:
			a.seq = seq`},
	{Name: "what was built on an unknown append counts as refused", Seed: 709, File: "pending.go",
		Old: `			other.resolve(err)`,
		New: `			if planted("what was built on an unknown append counts as refused") {
				err = ErrConflict
			}
			other.resolve(err)`},
	{Name: "parts of another record are taken", Seed: 938, File: "parts.go",
		Old: `set.counter != h.counter || uint64(len(set.list))`,
		New: `set.counter != h.counter && !planted("parts of another record are taken") || uint64(len(set.list))`},
	{Name: "parts are forgotten when there is no room", File: "process.go",
		Old: `if l.pos.Log = before; parts != nil {`,
		New: `if l.pos.Log = before; parts != nil && !planted("parts are forgotten when there is no room") {`},
	{Name: "a mark is taken for processed when it is stored", File: "barrier.go",
		Old: `			l.checkProcessed(r.seq, func() bool { return m.passed })`,
		New: `			if planted("a mark is taken for processed when it is stored") {
				return nil
			}
			l.checkProcessed(r.seq, func() bool { return m.passed })`},
	{Name: "a read waits for the message before the last one", File: "barrier.go",
		Old: `current := l.next > seq`,
		New: `current := l.next > seq || l.next == seq && planted("a read waits for the message before the last one")`},
	{Name: "a gap of a replica is taken for one of the stream", File: "fetch.go",
		Old: `if now, ok := l.state(); !ok || seq > now {`,
		New: `if now, ok := l.state(); ok && seq > now && planted("a gap of a replica is taken for one of the stream") {
			l.mu.Lock()
			l.next = seq
			l.mu.Unlock()
		} else if !ok || seq > now {`},
	{Name: "the silence of a deposed leader is taken for a loss", File: "fetch.go",
		Old: `case err != nil && !errors.Is(err, errNoMessage):`,
		New: `case errors.Is(err, errNoMessage) && planted("the silence of a deposed leader is taken for a loss"):
		l.fail(ErrDamaged)
		return 0, nil
	case err != nil && !errors.Is(err, errNoMessage):`},
	{Name: "the checksum is ignored", File: "record.go",
		Old: `sumOf(p) != crc64nvme.Checksum(p[8:])`,
		New: `sumOf(p) != crc64nvme.Checksum(p[8:]) && !planted("the checksum is ignored")`},
	{Name: "a record without room is waited for although the log was cut", Seed: 48, File: "process.go",
		Old: `unsettled, l.unsettled = l.unsettled, false`,
		New: `unsettled = l.unsettled
	l.unsettled = unsettled && planted("a record without room is waited for although the log was cut")`},
}
