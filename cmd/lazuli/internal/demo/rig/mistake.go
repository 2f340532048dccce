package rig

import (
	"context"

	"github.com/lazuli-storage/lazuli/workers"
)

// A Mistake is a way to do the work of a demonstration without its pattern, as a program does that is written without
// thinking of crashes. Its worker is killed at a step, and the damage is counted.
type Mistake struct {
	// Demonstration is the one that it belongs to, Name tells it from the others of that.
	Demonstration, Name string
	// Does says what the worker does, and Why how that does the damage.
	Does, Why string
	// Point is the step at which it is killed.
	Point string
	// Shows is the damage that must be seen, one of the constants.
	Shows string
	// From is the list of the census that Shows is counted from, if not the one of that name, and says are the words for
	// what it is, in place of the demonstration's legend.
	From, Says string
	// Always means that the damage is there without a kill too.
	Always bool
	// Crowd means that several messages must be in work at a time.
	Crowd bool
	Run   VariantRun
}

// The kinds of damage.
const (
	DamageLost     = "lost"
	DamageDoubled  = "doubled"
	DamageHalf     = "half"
	DamageOrphaned = "orphaned"
	DamageUndone   = "not done"
	DamageChanged  = "changed"
)

// ID names a mistake among those of all demonstrations.
func (m *Mistake) ID() string { return m.Demonstration + "/" + m.Name }

// mistakeHits is the latest hit of its step at which the worker of a mistake is killed: with few items, all mistakes
// reach it.
const mistakeHits = 5

// FromSurplus counts Shows from the items that have more entities than they should have.
const FromSurplus = "surplus"

// VariantRun is the body of a worker's process.
type VariantRun = func(context.Context, *workers.Storage, *workers.App, WorkerSettings) error
