package jsonvalue

import (
	"encoding/json"
	"testing"
	"time"
)

// The rules are those of the Functions host's own tests: text becomes JSON in text, objects stay objects.
func TestWireValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		want  string
	}{
		{"stringTest", `"\"stringTest\""`},
		{"<a & b>", `"\"<a & b>\""`},
		{4, `"4"`},
		{nil, `"null"`},
		{true, `"true"`},
		{[]byte("hello"), `"aGVsbG8="`},
		{[]json.RawMessage{[]byte(`{"a":1}`)}, `"[{\"a\":1}]"`},
		{struct {
			Name string
			Id   int
		}{"TestName", 1234}, `{"Name":"TestName","Id":1234}`},
		{time.Date(2019, 10, 1, 0, 0, 0, 5, time.FixedZone("", 3600)), `"2019-09-30T23:00:00+00:00"`},
	} {
		got, err := Marshal(Wire(c.value))
		if err != nil || string(got) != c.want {
			t.Errorf("%v: %s, %v, want %s", c.value, got, err, c.want)
		}
	}
	if got := Time(time.Date(2019, 10, 9, 17, 58, 32, 220539990, time.UTC)); got != "2019-10-09T17:58:32.2205399Z" {
		t.Error(got)
	}
}
