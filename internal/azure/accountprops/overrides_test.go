package accountprops

import (
	"reflect"
	"strings"
	"testing"
)

// Every setting takes a value, gives it back, and changes nothing else.
func TestEverySettingReadsBack(t *testing.T) {
	t.Parallel()
	values := map[string]string{"encryption-scopes": "one,two", "container-soft-delete-days": "7"}
	for _, s := range BlobSettings {
		v := values[s.Name]
		if v == "" {
			v = "true"
		}
		o, err := ParseOverrides([]string{s.Name + "=" + v})
		if err != nil {
			t.Fatal(err)
		}
		var b Blob
		if err := s.Set(&b, v); err != nil || s.Get(&b) != v || reflect.ValueOf(b).IsZero() {
			t.Errorf("%s is %q, %v", s.Name, s.Get(&b), err)
		}
		for _, other := range BlobSettings {
			if other.Name != s.Name && other.Get(&b) != other.Get(new(Blob)) {
				t.Errorf("%s changes %s", s.Name, other.Name)
			}
		}
		if o.String() != s.Name+"="+v {
			t.Errorf("%s reads back as %q", s.Name, o)
		}
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	defaults := Blob{Versioning: true, Scopes: []string{"one"}, ContainerDays: 3}
	for _, tc := range []struct {
		name, fields string
		want         Blob
		err          string
	}{
		{"none", "", defaults, ""},
		{"off", "blob-versioning=false", Blob{Scopes: defaults.Scopes, ContainerDays: 3}, ""},
		{"some", "container-soft-delete-days=0 blob-change-feed=true",
			Blob{Versioning: true, Scopes: defaults.Scopes, ChangeFeed: true}, ""},
		{"own scopes", "encryption-scopes=two,three",
			Blob{Versioning: true, Scopes: []string{"two", "three"}, ContainerDays: 3}, ""},
		{"no scopes", "encryption-scopes=", Blob{Versioning: true, ContainerDays: 3}, ""},
		{"immutability with the process's versions", "blob-immutability=true",
			Blob{Versioning: true, Immutability: true, Scopes: defaults.Scopes, ContainerDays: 3}, ""},
		{"immutability without versions", "blob-versioning=false blob-immutability=true", Blob{},
			"blob-immutability needs blob-versioning"},
		{"unknown", "blob-version=true", Blob{}, `unknown setting blob-version: use one of blob-access-times, `},
		{"no value", "blob-versioning", Blob{}, `setting 1 is not of the form setting=value`},
		{"bad switch", "blob-versioning=yes", Blob{}, `blob-versioning: "yes" is not true or false`},
		{"bad number", "container-soft-delete-days=366", Blob{}, `"366" is not a number from 0 to 365`},
		{"bad scope", "encryption-scopes=one,t.o", Blob{}, `"t.o" is no name of an encryption scope`},
		{"twice", "blob-versioning=true blob-versioning=false", Blob{}, "blob-versioning is given twice"},
	} {
		o, err := ParseOverrides(strings.Fields(tc.fields))
		var got Blob
		if err == nil {
			got, err = o.Apply(defaults)
		}
		switch {
		case tc.err != "":
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: error %v, want %s", tc.name, err, tc.err)
			}
		case err != nil || !reflect.DeepEqual(got, tc.want):
			t.Errorf("%s: %+v, %v, want %+v", tc.name, got, err, tc.want)
		}
	}
}

// A key where a setting should be is not shown.
func TestErrorsShowNoKeys(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"abcdefghabcdefgh",
		"Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==", "YWJj="} {
		_, err := ParseOverrides([]string{key})
		if err == nil || strings.Contains(err.Error(), strings.TrimRight(key, "=")) {
			t.Errorf("%v", err)
		}
	}
}

func TestPossible(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]bool{"": true, "blob-immutability=true": true,
		"blob-immutability=true blob-versioning=false": false} {
		if o, err := ParseOverrides(strings.Fields(fields)); err != nil || (o.Possible() == nil) != want {
			t.Errorf("%q: %v, %v", fields, o.Possible(), err)
		}
	}
}

func TestOverridesWithAndWithout(t *testing.T) {
	t.Parallel()
	o, err := ParseOverrides([]string{"container-soft-delete-days=7", "blob-versioning=true"})
	if err != nil {
		t.Fatal(err)
	}
	more, err := o.With("blob-versioning", "false")
	if err != nil || more.String() != "blob-versioning=false container-soft-delete-days=7" {
		t.Errorf("%q, %v", more, err)
	}
	less, err := more.Without("blob-versioning")
	if err != nil || less.String() != "container-soft-delete-days=7" {
		t.Errorf("%q, %v", less, err)
	}
	if o.String() != "blob-versioning=true container-soft-delete-days=7" {
		t.Errorf("the original became %q", o)
	}
	if _, err := o.Without("nothing"); err == nil {
		t.Error("a setting that does not exist is taken away")
	}
}
