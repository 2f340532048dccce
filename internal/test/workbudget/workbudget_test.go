package workbudget

import (
	"fmt"
	"runtime"
	"testing"
)

// recorder records the failures of a check.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

var sink []byte

func TestQuadraticWorkIsFound(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processor time is not measured here")
	}
	quadratic := func(input string) int {
		sum := 0
		for i := range input {
			for j := range input {
				sum += int(input[i] ^ input[j])
			}
		}
		return sum
	}
	var r recorder
	Inputs(32<<10, "", []string{"ab"}, "", func(input string) {
		Default.Check(&r, len(input), func() { sink = append(sink[:0], byte(quadratic(input))) })
	})
	if len(r.failures) != 1 {
		t.Errorf("failures %q, want one", r.failures)
	}
}

func TestMemoryIsFound(t *testing.T) {
	var r recorder
	Default.Check(&r, 1000, func() { sink = make([]byte, 3<<20) })
	if len(r.failures) != 1 {
		t.Errorf("failures %q, want one", r.failures)
	}
}

func TestLinearWorkPasses(t *testing.T) {
	Inputs(256<<10, "begin", []string{"x", "yz"}, "end", func(input string) {
		Default.Check(t, len(input), func() { sink = append([]byte(nil), input...) })
	})
}
