package accountprops

import (
	"fmt"
	"slices"
	"strings"
)

// Override is a setting of one account, with its value as text.
type Override struct{ Name, Value string }

// Overrides are the settings of one account that replace those of the process, in the order of the table. The zero
// value is empty.
type Overrides []Override

// setting returns a row of the table, nil for an unknown name.
func setting(name string) *Setting {
	i := slices.IndexFunc(BlobSettings, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &BlobSettings[i]
}

// Known reports whether there is a setting of the name.
func Known(name string) bool { return setting(name) != nil }

// errUnknown returns the error for an unknown setting. It does not repeat a name that might be a misplaced account key:
// keys are base64, without hyphens.
func errUnknown(name string) error {
	shown := ""
	if len(name) <= 40 && strings.Contains(name, "-") && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") == "" {
		shown = " " + name
	}
	return fmt.Errorf("unknown setting%s: use one of %s", shown, SettingNames())
}

// SettingNames returns the names of all settings, for messages.
func SettingNames() string {
	names := make([]string, len(BlobSettings))
	for i := range BlobSettings {
		names[i] = BlobSettings[i].Name
	}
	return strings.Join(names, ", ")
}

// With returns o with a setting added or replaced. It fails for unknown names and invalid values; o is unchanged.
func (o Overrides) With(name, value string) (Overrides, error) {
	row := setting(name)
	if row == nil {
		return nil, errUnknown(name)
	}
	var b Blob
	if err := row.Set(&b, value); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	next := append(o.without(name), Override{name, row.Get(&b)})
	slices.SortStableFunc(next, func(a, b Override) int { return rank(a.Name) - rank(b.Name) })
	return next, nil
}

// Without returns o without a setting, so that the process's setting applies. It fails for unknown names.
func (o Overrides) Without(name string) (Overrides, error) {
	if setting(name) == nil {
		return nil, errUnknown(name)
	}
	return o.without(name), nil
}

func (o Overrides) without(name string) Overrides {
	return slices.DeleteFunc(slices.Clone(o), func(s Override) bool { return s.Name == name })
}

// Has reports whether the setting is among o.
func (o Overrides) Has(name string) bool {
	return slices.ContainsFunc(o, func(s Override) bool { return s.Name == name })
}

func rank(name string) int {
	return slices.IndexFunc(BlobSettings, func(s Setting) bool { return s.Name == name })
}

// ParseOverrides parses fields of the form "name=value". Each name may occur once. Errors repeat only names and values
// of settings.
func ParseOverrides(fields []string) (o Overrides, err error) {
	for i, f := range fields {
		name, value, ok := strings.Cut(f, "=")
		if !ok {
			return nil, fmt.Errorf("setting %d is not of the form setting=value", i+1)
		}
		if o.Has(name) {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		if o, err = o.With(name, value); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// String returns the form that ParseOverrides parses, with a space between fields.
func (o Overrides) String() string {
	fields := make([]string, len(o))
	for i, s := range o {
		fields[i] = s.Name + "=" + s.Value
	}
	return strings.Join(fields, " ")
}

// Possible returns an error for combinations that are invalid whatever the settings of the process are.
func (o Overrides) Possible() error {
	_, err := o.Apply(Blob{Versioning: true})
	return err
}

// Apply returns the settings of an account: o, and defaults for all others. It fails for combinations that exclude each
// other.
func (o Overrides) Apply(defaults Blob) (Blob, error) {
	b := defaults
	for _, s := range o {
		row := setting(s.Name)
		if row == nil {
			return b, errUnknown(s.Name)
		}
		if err := row.Set(&b, s.Value); err != nil {
			return b, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	if b.Hierarchical && o.Has("hierarchical-namespace") { // the process's settings are those of its flat accounts
		for _, off := range [...]struct {
			name string
			is   *bool
		}{{"blob-versioning", &b.Versioning}, {"blob-immutability", &b.Immutability}, {"blob-change-feed", &b.ChangeFeed}} {
			if !o.Has(off.name) {
				*off.is = false
			}
		}
	}
	return b, b.Validate()
}
