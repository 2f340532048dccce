// Package entity defines the entities of package durable: objects with a state, which survives crashes, and operations,
// which workflows and clients call.
//
//	counter := new(entity.Kind[int])
//	entity.Operation(counter, "add", func(ctx *entity.Context, state *int, n int) (int, error) {
//		*state += n
//		return *state, nil
//	})
//	app.Entity("counter", counter)
//
// A workflow calls an operation by durable.CallEntity, signals it by the method SignalEntity of durable.Context, and
// has entities for itself between LockEntities and unlock. A program outside signals, reads and lists entities by a
// durable.Client.
package entity
