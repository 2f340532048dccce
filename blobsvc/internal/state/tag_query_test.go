package state

import "testing"

func TestTagQuery(t *testing.T) {
	t.Parallel()
	tags := []Tag{{"project", "lazuli"}, {"stage", "2"}}
	for query, want := range map[string]bool{
		`"project" = 'lazuli'`:                    true,
		`project='lazuli' AND "stage" >= '2'`:     true,
		`project='x' OR stage<'3'`:                true,
		`project='lazuli' AND stage>'2'`:          false,
		`"other" = ''`:                            false,
		`"other" <> 'x'`:                          true,
		`project='x' OR stage='2' AND other='1' `: false,
	} {
		q, ok := ParseTagQuery(query, true)
		if !ok {
			t.Errorf("%s is refused", query)
		} else if got := q.Matches(tags); got != want {
			t.Errorf("%s is %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{"", "project", "project=", "project='x", "project='x' AND", "project='x' project='y'", "= 'x'", "a='x' XOR b='y'"} {
		if _, ok := ParseTagQuery(query, true); ok {
			t.Errorf("%q is accepted", query)
		}
	}
	if _, ok := ParseTagQuery("a='x' OR b='y'", false); ok {
		t.Error("Find Blobs by Tags accepts OR")
	}
}
