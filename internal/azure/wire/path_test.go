package wire

import (
	"errors"
	"testing"
)

func TestResolvePath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/c/key": "/c/key", "/c/./key": "/c/key", "/c/%2E/key": "/c/key", "/c/.%2Fkey": "/c/key", "/c/%2e%2fkey": "/c/key",
		"/c/a/../key": "/c/key", "/c/a/%2E./key": "/c/key", "/c/a/..%5Ckey": "/c/key", "/c/../d/key": "/d/key",
		"/c/../../d/key": "/d/key", "/../..": "/", "/c/.": "/c/", "/c/a/..": "/c/", "/c/a/.": "/c/a/",
		// Segments that only begin or end with dots, and other encodings, stay as they are.
		"/c/.key": "/c/.key", "/c/...": "/c/...", "/c/a.": "/c/a.", "/c/a..b/%41": "/c/a..b/%41", "/c//key": "/c//key",
		"/c/%252E/key": "/c/%252E/key", "/c/100%": "/c/100%", "/c/%EF%BF%BF": "/c/%EF%BF%BF", "/c/\u00e9": "/c/\u00e9",
		"": "",
	} {
		if got, err := ResolvePath(path); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", path, got, err, want)
		}
	}
	for _, path := range []string{"/c/%01%05x", "/c/%00", "/c/%1F", "/c/%7f", "/c/%C2%81", "/c/%EE%80%80", "/c/%EF%80%83",
		"/c/\u0081", "/c/./%0a"} {
		if _, err := ResolvePath(path); !errors.Is(err, ErrRefusedPath) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func FuzzResolvePath(f *testing.F) {
	f.Add("/c/a/../%2E/.%2Fkey")
	f.Fuzz(func(t *testing.T, path string) {
		once, err := ResolvePath("/" + path)
		if err != nil {
			return
		}
		if again, err := ResolvePath(once); again != once || err != nil {
			t.Errorf("%q: %q, and again %q, %v", path, once, again, err)
		}
	})
}
