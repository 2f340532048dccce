package fault

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// EnvVar is the environment variable in which a command looks for its plan.
const EnvVar = "LAZULI_FAULT"

// ErrInjected is in the chain of every error that a plan read from text returns.
var ErrInjected = errors.New("injected fault")

// Action holds what happens at a point. The error it returns becomes the point's.
type Action func(name Name) error

// Rule says what to do at one point, and when.
type Rule struct {
	Point Name
	// On is the hit at which the rule acts, counted from 1; 0 means at every hit.
	On int
	Do Action
}

// Plan is a set of rules with their counters. It is safe for concurrent use.
type Plan struct {
	mu    sync.Mutex // guards hits
	hits  map[Name]int
	rules []Rule
}

// NewPlan returns a plan of the given rules. Rules for the same point act in the order given, until one returns an
// error.
func NewPlan(rules ...Rule) *Plan {
	return &Plan{hits: map[Name]int{}, rules: rules}
}

// Hits returns how often a point was passed while the plan was in force, whether a rule acted or not.
func (p *Plan) Hits(name Name) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits[name]
}

func (p *Plan) hit(name Name) error {
	p.mu.Lock()
	p.hits[name]++
	n := p.hits[name]
	p.mu.Unlock()
	for _, r := range p.rules {
		if r.Point == name && (r.On == 0 || r.On == n) {
			if err := r.Do(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fail returns an action that fails with err.
func Fail(err error) Action { return func(Name) error { return err } }

// Wait returns an action that waits.
func Wait(d time.Duration) Action { return func(Name) error { time.Sleep(d); return nil } }

// Panic is an action that panics.
func Panic(name Name) error { panic("fault: injected panic at " + string(name)) }

// Exit returns an action that ends the process with a code, running no deferred call.
func Exit(code int) Action { return func(Name) error { os.Exit(code); return nil } }

// Kill is an action that ends its own process with SIGKILL, and never returns: nothing runs afterwards.
func Kill(Name) error {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(fmt.Sprintf("fault: cannot kill this process: %v", err))
	}
	select {} // The signal is on its way; no further instruction of this goroutine must run.
}

// Say is an action that writes the point's name, in a line "fault: POINT", to standard error, for a test that waits for
// it.
func Say(name Name) error {
	_, err := fmt.Fprintf(os.Stderr, "fault: %s\n", name)
	return err
}

// ParsePlan reads a plan from text: rules joined by commas, each POINT=ACTION or POINT=ACTION@N, to act at the Nth hit
// only. Actions are error, delay:DURATION, say, panic, exit:CODE, stop and kill. The points must be declared.
//
//	archive/after-copy=kill@17,archive/before-delete=delay:50ms
func ParsePlan(text string) (*Plan, error) {
	var rules []Rule
	for part := range strings.SplitSeq(text, ",") {
		rule, err := parseRule(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("fault plan %q: %w", text, err)
		}
		rules = append(rules, rule)
	}
	return NewPlan(rules...), nil
}

func parseRule(text string) (Rule, error) {
	point, action, ok := strings.Cut(text, "=")
	if !ok {
		return Rule{}, fmt.Errorf("rule %q is not POINT=ACTION", text)
	}
	rule := Rule{Point: Name(point)}
	if !slices.Contains(Points(), rule.Point) {
		return Rule{}, fmt.Errorf("no point is called %q; there are %v", point, Points())
	}
	action, on, counted := strings.Cut(action, "@")
	if counted {
		n, err := strconv.Atoi(on)
		if err != nil || n < 1 {
			return Rule{}, fmt.Errorf("%q is not the number of a hit, counted from 1", on)
		}
		rule.On = n
	}
	var err error
	rule.Do, err = parseAction(action)
	return rule, err
}

func parseAction(text string) (Action, error) {
	kind, argument, _ := strings.Cut(text, ":")
	switch kind {
	case "error":
		return func(name Name) error { return fmt.Errorf("%w at %s", ErrInjected, name) }, nil
	case "delay":
		d, err := time.ParseDuration(argument)
		if err != nil {
			return nil, fmt.Errorf("delay: %w", err)
		}
		return Wait(d), nil
	case "say":
		return Say, nil
	case "panic":
		return Panic, nil
	case "exit":
		code, err := strconv.Atoi(argument)
		if err != nil {
			return nil, fmt.Errorf("exit code %q: %w", argument, err)
		}
		return Exit(code), nil
	case "stop":
		return Stop, nil
	case "kill":
		return Kill, nil
	}
	return nil, fmt.Errorf("no action is called %q; there are error, delay:DURATION, say, panic, exit:CODE, stop and kill",
		kind)
}
