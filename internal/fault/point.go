package fault

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Name is the name of a point: the component, a slash, and the moment in words joined by dashes, as in
// "archive/after-copy".
type Name string

// active is the plan in force; nil means that every point is off.
var active atomic.Pointer[Plan]

// Point is the moment called name. It returns nil at once unless a plan in force has a rule for the name, and then does
// what the rule says: the error that it returns is the injected one.
func Point(name Name) error {
	if p := active.Load(); p != nil {
		return p.hit(name)
	}
	return nil
}

var declared struct {
	sync.Mutex
	names []Name
}

// Declare registers a point's name and returns it. It is meant for package variables; declaring a name twice panics,
// since the harness could not tell the two moments apart.
func Declare(name Name) Name {
	declared.Lock()
	defer declared.Unlock()
	if slices.Contains(declared.names, name) {
		panic(fmt.Sprintf("fault: point %q is declared twice", name))
	}
	declared.names = append(declared.names, name)
	return name
}

// Points returns the declared names in alphabetical order.
func Points() []Name {
	declared.Lock()
	defer declared.Unlock()
	names := slices.Clone(declared.names)
	slices.Sort(names)
	return names
}

// PointsOf returns the declared names of a component, in the order of their declaration: that of the steps, where one
// group of variables declares them.
func PointsOf(component string) (names []string) {
	declared.Lock()
	defer declared.Unlock()
	for _, n := range declared.names {
		if strings.HasPrefix(string(n), component+"/") {
			names = append(names, string(n))
		}
	}
	return names
}

// Activate puts a plan in force for the whole process and returns a function that takes it out again. Only one plan can
// be in force: a second Activate before that panics, because two tests at once would see each other's faults.
func Activate(p *Plan) (deactivate func()) {
	if !active.CompareAndSwap(nil, p) {
		panic("fault: a plan is in force already")
	}
	return func() { active.CompareAndSwap(p, nil) }
}
