package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// The kinds of blobs whose histories are checked. Each kind has requests of its own.
const (
	kindETag   = "etag"   // overwritten on condition of the ETag that was read
	kindLease  = "lease"  // leased, and written with and without the lease
	kindAppend = "append" // an append blob, appended to at a position or anywhere
	kindBlocks = "blocks" // blocks are staged, and committed after some of those that are there
)

var historyKinds = []string{kindETag, kindLease, kindAppend, kindBlocks}

// The requests.
const (
	doRead    = "read"
	doWrite   = "write"
	doAcquire = "acquire"
	doRelease = "release"
	doAppend  = "append"
	doStage   = "stage"
	doCommit  = "commit"
)

// blobRequest is a request to a blob of a kind.
type blobRequest struct {
	kind, do string
	// condition is the ETag or the ID of the lease that the request has; "" for none.
	condition string
	// position is the number of blocks that an append blob must have, -1 for any.
	position int
	// value holds what is written: content, a block, or a list of blocks.
	value string
}

// outcome holds what is known about a request.
type outcome int

const (
	wasDone    outcome = iota
	wasRefused         // its condition was not met, and nothing has changed
	wasUnknown         // it took effect at some time after it was sent, or not at all
)

// blobAnswer is the answer to a request.
type blobAnswer struct {
	outcome outcome
	value   string // that was read
	etag    string
	leased  bool
}

// blobModel holds what a blob has. Lists of blocks are joined by spaces.
type blobModel struct {
	value  string
	etag   string // "" after a write whose answer was lost
	lease  string
	staged string
}

// step returns what the blob has after a request, and whether the answer is right.
func (m blobModel) step(r blobRequest, a blobAnswer) (after blobModel, right bool) {
	if r.do == doRead {
		right = a.value == m.value && a.leased == (m.lease != "") && (r.kind != kindETag || m.etag == "" || a.etag == m.etag)
		m.etag = a.etag
		return m, right
	}
	after, accepted := m.apply(r)
	switch a.outcome {
	case wasDone:
		after.etag = a.etag
		return after, accepted
	case wasRefused:
		return m, !accepted
	}
	if !accepted {
		return m, true
	}
	return after, true
}

// apply returns what the blob has after a request of unknown outcome, if the blob accepts it.
func (m blobModel) apply(r blobRequest) (after blobModel, accepted bool) {
	switch r.do {
	case doWrite:
		// The whole model of a condition: the request takes effect only on the state that it names.
		accepted = r.condition == m.lease
		if r.kind == kindETag {
			accepted = r.condition == m.etag
		}
		// Unknown until a read, unless the caller has the answer with the new ETag.
		m.value, m.etag = r.value, ""
	case doAcquire:
		accepted = m.lease == "" || m.lease == r.condition
		m.lease = r.condition
	case doRelease:
		accepted = m.lease == r.condition
		m.lease = ""
	case doAppend:
		// Azure answers 412 if the blob is not as long as the condition says. A position of -1 is an append without one.
		accepted = r.position < 0 || r.position == len(strings.Fields(m.value))
		m.value = strings.TrimSpace(m.value + " " + r.value)
	case doStage:
		accepted = true
		if list := strings.Fields(m.staged); !slices.Contains(list, r.value) {
			list = append(list, r.value)
			// As a set: two models that staged the same blocks in another order are the same state, which porcupine
			// recognizes by comparing values.
			slices.Sort(list)
			m.staged = strings.Join(list, " ")
		}
	case doCommit:
		// A commit may name committed blocks and staged ones; one that is neither is InvalidBlockList.
		there := append(strings.Fields(m.value), strings.Fields(m.staged)...)
		accepted = !slices.ContainsFunc(strings.Fields(r.value), func(id string) bool { return !slices.Contains(there, id) })
		// A commit discards all staged blocks, also those that it does not name.
		m.value, m.staged, m.etag = r.value, "", ""
	}
	return m, accepted
}

// blobHistories is the model for porcupine.
var blobHistories = porcupine.Model{
	Init: func() any { return blobModel{} },
	Step: func(state, input, output any) (bool, any) {
		after, right := state.(blobModel).step(input.(blobRequest), output.(blobAnswer))
		return right, after
	},
}

// checkTime bounds the check of one history.
const checkTime = 20 * time.Second

// checkHistory reports whether some order of the requests explains all answers. decided is false if that was not found
// out in time.
func checkHistory(ops []porcupine.Operation) (right, decided bool) {
	result := porcupine.CheckOperationsTimeout(blobHistories, ops, checkTime)
	return result != porcupine.Illegal, result != porcupine.Unknown
}

// describe returns a history as text, by the times of the requests.
func describe(ops []porcupine.Operation) string {
	var b strings.Builder
	sorted := slices.SortedFunc(slices.Values(ops), func(x, y porcupine.Operation) int { return int(x.Call - y.Call) })
	for _, op := range sorted {
		ended := "no answer"
		if op.Return != never {
			ended = time.Duration(op.Return).String()
		}
		fmt.Fprintf(&b, "\n  %v to %s: %+v: %+v", time.Duration(op.Call), ended, op.Input, op.Output)
	}
	return b.String()
}
