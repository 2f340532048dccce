package accountprops

import (
	"fmt"
	"slices"
	"strings"
)

// Override is a setting that an account has of its own, with its value as text.
type Override struct{ Name, Value string }

// Overrides are the settings that an account has in place of the process's, in the order of the table. The zero value has none.
type Overrides []Override

// setting finds a row of the table.
func setting(name string) *Setting {
	i := slices.IndexFunc(BlobSettings, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &BlobSettings[i]
}

// Known reports whether there is a setting of that name.
func Known(name string) bool { return setting(name) != nil }

// errUnknown says that there is no setting of a name. It does not repeat the name where that might be a key that went astray: those
// are base64, without hyphens.
func errUnknown(name string) error {
	shown := ""
	if len(name) <= 40 && strings.Contains(name, "-") && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") == "" {
		shown = " " + name
	}
	return fmt.Errorf("unknown setting%s: there are %s", shown, SettingNames())
}

// SettingNames are the names of all settings, for messages.
func SettingNames() string {
	names := make([]string, len(BlobSettings))
	for i := range BlobSettings {
		names[i] = BlobSettings[i].Name
	}
	return strings.Join(names, ", ")
}

// With returns o with one more setting, or another value of it. It fails for names and values that do not exist; o stays as it is.
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

// Without returns o without a setting, which is then the process's. It fails for names that do not exist.
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

// ParseOverrides reads "name=value" of each field. No name may be there twice. Errors repeat names and values of settings alone.
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

// String is ParseOverrides' form, with a space between fields.
func (o Overrides) String() string {
	fields := make([]string, len(o))
	for i, s := range o {
		fields[i] = s.Name + "=" + s.Value
	}
	return strings.Join(fields, " ")
}

// Possible fails for combinations that cannot be, whatever the process's settings are.
func (o Overrides) Possible() error {
	_, err := o.Apply(Blob{Versioning: true})
	return err
}

// Apply returns the settings of an account that has o of its own, and everything else as defaults. It fails for combinations that
// cannot be.
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
	return b, b.Validate()
}
