package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Sources are the places that Load reads.
type Sources struct {
	// Flags is a set with AddFlags' flags, after parsing; nil for none.
	Flags *pflag.FlagSet
	// Environ is the environment as "name=value".
	Environ []string
	// Service is the service of a program that has one, as azurite-blob has; "" for all. Its data folder is a folder of
	// the service's name in Location: several such programs, which may share a Location, cannot share a data folder.
	Service string
}

// Load reads all sources and validates the result. Its errors are for the user; they name the option and where it was
// set.
func Load(s Sources) (*Result, error) {
	r := &Result{Config: Default(), sources: make(map[*option]Source)}
	flags, notes, err := flagSettings(s.Flags)
	if err != nil {
		return nil, err
	}
	r.Notes = append(r.Notes, notes...)
	environ, notes, err := environSettings(s.Environ)
	if err != nil {
		return nil, err
	}
	r.Notes = append(r.Notes, notes...)
	var all []setting
	path, err := filePath(s)
	if err != nil {
		return nil, err
	}
	if path != "" {
		if all, err = fileSettings(path); err != nil {
			return nil, err
		}
	}
	// In the order of Source, so that a later one wins over the ones before.
	all = append(append(all, environ...), flags...)
	for _, set := range all {
		if err := set.option.set(&r.Config, set.value); err != nil {
			return nil, fmt.Errorf("%s: %w", set.where, err)
		}
		r.sources[set.option] = set.from
	}
	if s.Service != "" {
		if r.Source("services") != FromDefault {
			return nil, fmt.Errorf("services cannot be set for azurite-%s, which serves one", s.Service)
		}
		r.Services = []string{s.Service}
		// Programs for one service may share a Location, and a data folder belongs to one process.
		r.Location = filepath.Join(r.Location, s.Service)
	}
	if err := r.checkServed(flags); err != nil {
		return nil, err
	}
	if err := r.persistence(); err != nil {
		return nil, err
	}
	if err := r.checkFront(); err != nil {
		return nil, err
	}
	if r.Source("accounts") != FromDefault && r.Source("accounts-file") != FromDefault {
		return nil, errors.New("accounts and accounts-file cannot both be set")
	}
	r.ServeDataLake = r.Source("dfs-port") != FromDefault || r.Source("dfs-host") != FromDefault ||
		r.BlobSettings.Hierarchical || r.ManagedAccounts // any of which may have a hierarchical namespace
	// Before validate, which compares the hosts that services really have.
	r.complete()
	if err := r.validate(); err != nil {
		return nil, err
	}
	return r, nil
}

// checkServed refuses flags of services that are not served, as Azurite's programs for one service do. The environment
// and the file may be shared by several programs.
func (r *Result) checkServed(flags []setting) error {
	for _, set := range flags {
		service, _, _ := strings.Cut(set.option.name, "-")
		if slices.Contains(allServices, service) && !r.Serves(service) {
			return fmt.Errorf("%s: the %s service is not served", set.where, service)
		}
	}
	return nil
}

// filePath is the configuration file that flags or environment name, "" for none. An empty flag is an error: without
// its file the server would have the development account, whose key is public.
func filePath(s Sources) (string, error) {
	if s.Flags != nil {
		if f := s.Flags.Lookup("config"); f != nil && f.Changed {
			if f.Value.String() == "" {
				return "", errors.New("--config: the value is empty")
			}
			return f.Value.String(), nil
		}
	}
	path := ""
	for _, e := range s.Environ {
		// No break: of a variable that is set twice the last one counts, as for all others.
		if v, ok := strings.CutPrefix(e, "LAZULI_CONFIG="); ok {
			path = v
		}
	}
	return path, nil
}

// persistence refuses a data folder for a process that keeps nothing, unless the folder is a remoter source's idea: an
// image may set it, and who runs the image say --in-memory.
func (r *Result) persistence() error {
	location, memory := r.sources[lookup("location")], r.sources[lookup("in-memory")]
	if r.InMemory && location != FromDefault && location >= memory {
		return errors.New("location and in-memory cannot both be set: one keeps data, the other does not")
	}
	return nil
}
