package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// askTimeout is the time that a node waits for an answer before it asks the next one.
const askTimeout = 5 * time.Second

// Fetch implements extent.Mirror. It asks one node after another.
//
// Errors: extent.ErrUnavailable if a node that may have the record did not answer, extent.ErrCorrupt if no node has it.
func (m *Mirror) Fetch(x extent.Slice) (offset int64, record []byte, err error) {
	q := question{Op: opRecord, Extent: x.Extent, Offset: x.Offset, Length: x.Length, CRC: x.CRC}
	var problems []error
	unreachable := false
	for _, p := range m.active() {
		n, data, err := m.ask(p, q)
		if err == nil {
			err = extent.CheckRecord(x, int64(n), data)
		}
		if err == nil {
			return int64(n), data, nil
		}
		if !errors.Is(err, errMissing) && !errors.Is(err, extent.ErrCorrupt) {
			unreachable = true
		}
		problems = append(problems, fmt.Errorf("node %s: %w", p.name, err))
	}
	cause := extent.ErrCorrupt
	if unreachable {
		cause = extent.ErrUnavailable
	}
	return 0, nil, fmt.Errorf("%w: extent %016x, offset %d: %v", cause, x.Extent, x.Offset, errors.Join(problems...))
}

// Healed implements extent.Mirror.
func (m *Mirror) Healed(x extent.Slice) {
	m.config.Log.Error("content of this node was damaged; it was replaced by the copy of another node", "extent",
		fmt.Sprintf("%016x", x.Extent),
		"offset", x.Offset, "bytes", x.Length)
}

// ask asks a peer.
func (m *Mirror) ask(p *peer, q question) (number uint64, data []byte, err error) {
	ctx, cancel := context.WithTimeout(m.life, min(askTimeout, m.config.Timeout))
	defer cancel()
	q.From = m.config.Node
	msg, err := m.request(ctx, m.askSubject(p.name), q.encode())
	if err != nil {
		return 0, nil, fmt.Errorf("mirror: %w", err)
	}
	p.heard()
	return parseAnswer(msg.Data)
}

// serveAsk answers another node.
func (m *Mirror) serveAsk(msg *nats.Msg) {
	var q question
	if err := json.Unmarshal(msg.Data, &q); err != nil || q.Version != messageVersion {
		m.reply(msg, answer(errMessage, 0, nil))
		return
	}
	if p := m.peer(q.From); p != nil {
		p.heard()
	}
	m.start(func() {
		at, data, err := m.find(&q)
		m.reply(msg, answer(err, uint64(at), data))
	})
}

// find returns what another node asks for.
func (m *Mirror) find(q *question) (at int64, data []byte, err error) {
	switch q.Op {
	case opRecord:
		return m.extents.Record(q.slice())
	case opRecords:
		return m.extents.Records(q.Extent, q.Offset, extent.MaxRecord)
	case opList:
		data, err = json.Marshal(m.list(q.Paged, q.Extent))
		return 0, data, err
	}
	return 0, nil, fmt.Errorf("mirror: unknown operation %q", q.Op)
}
