package table

import "testing"

func TestTableIDs(t *testing.T) {
	t.Parallel()
	var ids tableIDs
	before := ids.deletionCount()
	ids.put("a", 1, before)
	if id, ok := ids.get("a"); !ok || id != 1 {
		t.Fatalf("got %d, %v", id, ok)
	}
	ids.forget("a")
	ids.put("a", 1, before) // read before the deletion, cached after it
	if id, ok := ids.get("a"); ok {
		t.Fatalf("a deleted table has the id %d", id)
	}
	ids.put("a", 2, ids.deletionCount())
	if id, _ := ids.get("a"); id != 2 {
		t.Fatalf("got %d, want 2", id)
	}
}
