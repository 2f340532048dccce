package fault

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	first  = Declare("test/first")
	second = Declare("test/second")
)

func TestPointIsOffWithoutPlan(t *testing.T) {
	if err := Point(first); err != nil {
		t.Fatal(err)
	}
}

func TestPlan(t *testing.T) {
	boom := errors.New("boom")
	p := NewPlan(Rule{Point: first, On: 2, Do: Fail(boom)})
	off := Activate(p)
	var got []error
	for range 3 {
		got = append(got, Point(first))
	}
	if want := []error{nil, boom, nil}; !slices.Equal(got, want) {
		t.Errorf("three hits gave %v, want %v", got, want)
	}
	if err := Point(second); err != nil {
		t.Errorf("a point without a rule failed: %v", err)
	}
	off()
	if err := Point(first); err != nil {
		t.Errorf("a point failed after its plan was taken out: %v", err)
	}
	if n := p.Hits(first); n != 3 {
		t.Errorf("%d hits counted, want 3", n)
	}
}

func TestEveryHitWithoutNumber(t *testing.T) {
	defer Activate(NewPlan(Rule{Point: first, Do: Fail(ErrInjected)}))()
	for range 2 {
		if err := Point(first); !errors.Is(err, ErrInjected) {
			t.Errorf("got %v", err)
		}
	}
}

func TestSecondPlanPanics(t *testing.T) {
	defer Activate(NewPlan())()
	defer func() {
		if recover() == nil {
			t.Error("a second plan came in force")
		}
	}()
	Activate(NewPlan())
}

func TestDeclareTwicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a name was declared twice")
		}
	}()
	Declare("test/first")
}

func TestPoints(t *testing.T) {
	if got := Points(); !slices.Equal(got, []Name{first, second}) {
		t.Errorf("got %v", got)
	}
	if got := PointsOf("test"); !slices.Equal(got, []string{string(first), string(second)}) {
		t.Errorf("of the component: %v", got)
	}
	if got := PointsOf("tes"); got != nil {
		t.Errorf("of a part of its name: %v", got)
	}
}

func TestParsePlanRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                     "POINT=ACTION",
		"test/first":           "POINT=ACTION",
		"test/third=kill":      `no point is called "test/third"`,
		"test/first=explode":   `no action is called "explode"`,
		"test/first=kill@0":    "counted from 1",
		"test/first=kill@x":    "counted from 1",
		"test/first=delay":     "delay",
		"test/first=exit:soon": "exit code",
		"test/first=kill,,":    "POINT=ACTION",
	} {
		if _, err := ParsePlan(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want an error saying %q", text, err, says)
		}
	}
}

func TestParsedActions(t *testing.T) {
	p, err := ParsePlan("test/first=delay:1ms, test/first=error@2, test/second=panic")
	if err != nil {
		t.Fatal(err)
	}
	defer Activate(p)()
	start := time.Now()
	if err := Point(first); err != nil {
		t.Errorf("first hit: %v", err)
	}
	if waited := time.Since(start); waited < time.Millisecond {
		t.Errorf("waited %v only", waited)
	}
	if err := Point(first); !errors.Is(err, ErrInjected) {
		t.Errorf("second hit: %v", err)
	}
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), "test/second") {
			t.Errorf("recovered %v", r)
		}
	}()
	_ = Point(second)
}

// A child of this test binary is ended at its second hit; neither its deferred call nor its last line may run.
func TestEndsProcess(t *testing.T) {
	if plan := os.Getenv(EnvVar); plan != "" {
		p, err := ParsePlan(plan)
		if err != nil {
			t.Fatal(err)
		}
		Activate(p)
		defer os.Stdout.WriteString("deferred\n")
		for range 2 {
			os.Stdout.WriteString("hit\n")
			_ = Point(first)
		}
		os.Stdout.WriteString("survived\n")
		return
	}
	for _, c := range []struct {
		plan  string
		ended func(syscall.WaitStatus) bool
	}{
		{"test/first=kill@2", func(s syscall.WaitStatus) bool { return s.Signaled() && s.Signal() == syscall.SIGKILL }},
		{"test/first=exit:137@2", func(s syscall.WaitStatus) bool { return s.Exited() && s.ExitStatus() == 137 }},
	} {
		child := exec.Command(os.Args[0], "-test.run=^TestEndsProcess$")
		child.Env = append(os.Environ(), EnvVar+"="+c.plan)
		out, err := child.Output()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !c.ended(exit.Sys().(syscall.WaitStatus)) {
			t.Errorf("%s: the child ended with %v", c.plan, err)
		}
		if string(out) != "hit\nhit\n" {
			t.Errorf("%s: the child wrote %q", c.plan, out)
		}
	}
}

func BenchmarkPointOff(b *testing.B) {
	for b.Loop() {
		if err := Point(first); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPointOnWithoutRule(b *testing.B) {
	defer Activate(NewPlan())()
	for b.Loop() {
		if err := Point(first); err != nil {
			b.Fatal(err)
		}
	}
}
