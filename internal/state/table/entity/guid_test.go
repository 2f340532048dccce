package entity

import "testing"

func TestGUID(t *testing.T) {
	t.Parallel()
	const text = "c9da6455-213d-42c9-9a79-3e9149a57833"
	for in, ok := range map[string]bool{
		text: true, "C9DA6455-213D-42C9-9A79-3E9149A57833": true, "00000000-0000-0000-0000-000000000000": true,
		"": false, "c9da6455213d42c99a793e9149a57833": false, "{c9da6455-213d-42c9-9a79-3e9149a57833}": false,
		"c9da6455-213d-42c9-9a79-3e9149a5783": false, "c9da6455-213d-42c9-9a79-3e9149a578333": false,
		"c9da6455-213d-42c9-9a79-3e9149a5783g": false,
		// Of the right length, with dashes in the right places and in others as well.
		"00000000-0000-0000-0000-00-000000000": false, "00000000-0000-0000-0000-----------00": false,
		"-0000000-0000-0000-0000-000000000000": false,
		"00000000-0000-0000-0000-00000000000-": false, "------------------------------------": false,
	} {
		g, got := ParseGUID(in)
		if got != ok {
			t.Errorf("%q is read: %v, want %v", in, got, ok)
		}
		if in == text && string(AppendGUID(nil, g[:])) != text {
			t.Errorf("%q is written %q", in, AppendGUID(nil, g[:]))
		}
	}
}
