package wire

import "testing"

func TestUnescapeQuery(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":               "",
		"a+b%20c%2B":     "a b c+",
		"100%":           "100%",
		"100%+x":         "100% x",
		"%zz%41%4":       "%zzA%4",
		"%%41":           "%A",
		"a;b":            "a;b",
		"%E4%BD%A0 %u4f": "\u4f60 %u4f",
	} {
		if got := unescapeQuery(in); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}
