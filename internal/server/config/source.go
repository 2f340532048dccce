package config

// Source is the place where a value came from. A later one wins.
type Source int

// The sources.
const (
	FromDefault Source = iota
	FromFile
	FromEnvironment
	FromFlag
)

// String returns a word for the source.
func (s Source) String() string {
	return [...]string{"default", "file", "environment", "flag"}[s]
}

// Result is a configuration and how it came about.
type Result struct {
	Config
	// Notes are for the operator: what was accepted and has no effect, what was ignored.
	Notes []string

	sources map[*option]Source
}

// setting is one value from one source.
type setting struct {
	option *option
	value  string
	from   Source
	where  string // what the user calls it: "--blob-port", "environment variable X", "lazuli.yaml:3: blob-port"
}

// Source says where the named option's value came from.
func (r *Result) Source(name string) Source { return r.sources[lookup(name)] }
