package state

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// While a cluster's leader changes, the deposed one might refuse what the new one carries out, and its answer might come
// first (change.go). The outcome must be found out: a Put that was made and is tried again in another slot makes two messages of one.
func TestARefusalIsNoProofOnACluster(t *testing.T) {
	t.Parallel()
	claim := func(r record) record { r.state.DequeueCount++; return r }
	tombstone := func(r record) record { return record{kind: recordTombstone, nonce: r.nonce} }
	cases := []struct {
		name string
		// change makes the change's record of the current one; nil is a new message in a new slot.
		change func(record) record
		made   bool // by the new leader
		// then is what others made of it afterwards.
		then []func(record) record
		want error // nil if the change counts as made
	}{
		{"put, made", nil, true, nil, nil},
		{"put, not made", nil, false, nil, nil}, // sent again
		{"put, made and claimed", nil, true, []func(record) record{claim}, nil},
		{"put, made, claimed and deleted", nil, true, []func(record) record{claim, tombstone}, errOvertaken},
		{"claim, made", claim, true, nil, nil},
		{"claim, not made", claim, false, nil, nil},
		{"claim, another came first", claim, false, []func(record) record{claim}, ErrReceiptMismatch},
		{"claim, the message was deleted", claim, false, []func(record) record{tombstone}, ErrMessageNotFound},
		{"claim, others came first", claim, false, []func(record) record{claim, claim}, errOvertaken},
		{"claim, made and claimed again", claim, true, []func(record) record{claim}, errOvertaken},
		{"delete, made", tombstone, true, nil, nil},
		{"delete, not made", tombstone, false, nil, nil},
		{"delete, others came first", tombstone, false, []func(record) record{claim, claim}, ErrReceiptMismatch},
		{"delete, made and the slot used again", tombstone, true,
			[]func(record) record{func(r record) record { return record{nonce: r.nonce + 1} }}, errOvertaken},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := memory(t)
			s.replicated, s.retryPause = true, time.Millisecond
			q := create(t, s, "orders")
			if err := q.needStream(ctx); err != nil {
				t.Fatal(err)
			}
			at, replace := q.takeSlot(true)
			r := record{nonce: 7, state: State{Inserted: 1, NextVisible: 1}}
			before := r
			if c.change != nil {
				seq, err := q.change(ctx, at, replace, r, []byte("x"))
				if err != nil {
					t.Fatal(err)
				}
				replace, r = seq, c.change(r)
			}
			ours := change{slot: at, replace: replace, record: r, fresh: c.change == nil}
			seq := replace
			if c.made {
				ours = q.begin(at, replace, r, []byte("x"))
				ours.fresh = c.change == nil
				var err error
				if seq, err = ours.pending.sequence(ctx); err != nil {
					t.Fatal(err)
				}
			} else {
				ours.record.writer, ours.record.bodySum = "w", sum([]byte("x"))
				ours.message = &nats.Msg{Subject: q.subject(at), Data: []byte("x"), Header: nats.Header{
					headerRecord: {ours.record.encode()}, headerSum: {sumText(at.token(), ours.record.encode())}, headerExpected: {strconv.FormatUint(replace, 10)}}}
			}
			others := before
			if c.made {
				others = r
			}
			for _, change := range c.then {
				others = change(others)
				p := q.begin(at, seq, others, []byte("x")).pending
				var err error
				if seq, err = p.sequence(ctx); err != nil {
					t.Fatal(err)
				}
			}
			ours.pending = refusal(s)
			got, err := q.finish(ctx, ours)
			if !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if err != nil {
				return
			}
			current, err := s.client.leaderRecord(ctx, q.stream, q.subject(at), at)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.then) == 0 && (got != current.seq || current.writer != ours.record.writer) {
				t.Errorf("the receipt is %d, the record %d is %s's", got, current.seq, current.writer)
			}
			if len(c.then) > 0 && got >= current.seq {
				t.Errorf("the receipt %d is somebody else's", got)
			}
		})
	}
}

// TestPutWithAnIndexThatLags: after a refusal has shown a record of another front-end, no slot is used again until that record has been followed.
func TestPutWithAnIndexThatLags(t *testing.T) {
	t.Parallel()
	s := memory(t)
	q := create(t, s, "orders")
	var sent [2]Message
	for i := range sent {
		m, err := q.Put(ctx, []byte("x"), 0, Forever, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		sent[i] = m
	}
	if err := q.Delete(ctx, sent[0].ID, sent[0].Receipt, time.Now()); err != nil {
		t.Fatal(err)
	}
	taken := record{state: sent[1].State, nonce: sent[1].ID.nonce()}
	taken.state.DequeueCount++
	other := q.begin(sent[1].ID.slot(), uint64(sent[1].Receipt), taken, []byte("x")).pending
	seq, err := other.sequence(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Delete(ctx, sent[1].ID, sent[1].Receipt, time.Now()); !errors.Is(err, ErrReceiptMismatch) {
		t.Fatalf("delete with the receipt of before: %v", err)
	}
	s.shared = true
	if at, replace := q.takeSlot(true); at == sent[0].ID.slot() || replace != 0 {
		t.Errorf("slot %d is used again while the index lags", at)
	}
	q.mu.Lock()
	q.noteFollowed(seq)
	q.mu.Unlock()
	if at, replace := q.takeSlot(true); at != sent[0].ID.slot() || replace == 0 {
		t.Errorf("slot %d is new; want the free one %d", at, sent[0].ID.slot())
	}
}

// refusal is the answer that a leader would give that was deposed and does not know it.
func refusal(s *Store) pending {
	p := pending{c: s.client, waiter: s.client.acquire()}
	p.waiter.answer <- &nats.Msg{Data: []byte(`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 0"}}`)}
	return p
}
