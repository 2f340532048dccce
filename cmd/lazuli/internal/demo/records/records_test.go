package records

import (
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	terms, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if len(terms) != 2792 {
		t.Errorf("%d terms, want 2792", len(terms))
	}
	seen := map[string]bool{}
	over := 0
	previous := ""
	for _, term := range terms {
		key := term.PartitionKey() + "/" + term.RowKey()
		if seen[key] || key < previous {
			t.Errorf("%s is there twice or out of order", key)
		}
		seen[key], previous = true, key
		if term.Name == "" || term.Party == "" || !term.End.After(term.Start) ||
			(term.Chamber == "house") == (term.District == "") {
			t.Errorf("incomplete: %+v", term)
		}
		if term.Over(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
			over++
		}
	}
	if over != 2255 {
		t.Errorf("%d terms were over by 2026, want 2255", over)
	}
}
