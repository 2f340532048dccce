package connstr

import "testing"

func TestFromEnvironment(t *testing.T) {
	t.Parallel()
	set := map[string]string{}
	want := func(text, variable string) {
		t.Helper()
		if gotText, gotVariable := FromEnvironment(func(name string) string { return set[name] }); gotText != text ||
			gotVariable != variable {
			t.Errorf("with %v: %q of %q, want %q of %q", set, gotText, gotVariable, text, variable)
		}
	}
	want(Development, "")
	set["AZURE_STORAGE_CONNECTION_STRING"] = "third"
	want("third", "AZURE_STORAGE_CONNECTION_STRING")
	set["AzureWebJobsStorage"] = "second"
	want("second", "AzureWebJobsStorage")
	set["LAZULI_CONNECTION_STRING"] = "first"
	want("first", "LAZULI_CONNECTION_STRING")
}
