package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
)

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// fileSettings reads a configuration file: one YAML mapping from option names to values. Unknown and repeated names
// are errors. Errors say file and line.
func fileSettings(path string) ([]setting, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	defer f.Close()
	// One byte more than permitted tells a file of exactly the limit from a longer one.
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("configuration file %s is larger than %d bytes", path, maxFile)
	}
	return parseFile(path, text)
}

func parseFile(path string, text []byte) ([]setting, error) {
	file, err := parseYAML(text)
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	r := fileReader{path: path}
	for i, doc := range file.Docs {
		if doc.Body == nil {
			continue // nothing but comments
		}
		if i > 0 {
			return nil, fmt.Errorf("configuration file %s: more than one document", path)
		}
		pairs, ok := mapping(doc.Body)
		if !ok {
			return nil, fmt.Errorf("configuration file %s: want lines of the form \"option: value\"", path)
		}
		for _, p := range pairs {
			name := p.Key.GetToken().Value
			var err error
			switch sections, ok := mapping(p.Value); {
			case kebab(name) == "roles" && ok:
				err = r.roles(sections)
			default:
				o := lookup(kebab(name))
				if o != nil {
					// At the top level such a name would be a second place for one option.
					if role, key := o.section(); role != "" {
						return nil, fmt.Errorf("%s: %s belongs in the section of its role: roles: {%s: {%s: ...}}",
							r.at(p), name, role,
							key)
					}
				}
				err = r.add(o, p)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return r.list, nil
}

// fileReader collects the settings of a file.
type fileReader struct {
	path string
	list []setting
}

func (r *fileReader) at(p *ast.MappingValueNode) string {
	return fmt.Sprintf("%s:%d", r.path, p.Key.GetToken().Position.Line)
}

// add reads the value of an option; o is nil if there is no such option.
func (r *fileReader) add(o *option, p *ast.MappingValueNode) error {
	where := r.at(p)
	if o == nil || o.get == nil {
		return fmt.Errorf("%s: unknown option %q", where, p.Key.GetToken().Value)
	}
	value, err := scalar(o, p.Value)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", where, o.name, err)
	}
	// YAML forbids repeated keys, but an option may be named in two spellings.
	for _, s := range r.list {
		if s.option == o {
			return fmt.Errorf("%s: %s is given twice", where, o.name)
		}
	}
	r.list = append(r.list, setting{o, value, FromFile, where + ": " + o.name})
	return nil
}

// roles reads the section of the roles: enabled, account, and a section for each role.
func (r *fileReader) roles(pairs []*ast.MappingValueNode) error {
	for _, p := range pairs {
		name := kebab(p.Key.GetToken().Value)
		switch {
		case name == "enabled":
			if err := r.add(lookup("roles"), p); err != nil {
				return err
			}
		case name == "account":
			if err := r.add(lookup("roles-account"), p); err != nil {
				return err
			}
		case slices.Contains(RoleNames, name):
			options, ok := mapping(p.Value)
			if !ok {
				return fmt.Errorf("%s: want the options of the role %s", r.at(p), name)
			}
			for _, q := range options {
				o := lookup(name + "-" + kebab(q.Key.GetToken().Value))
				if err := r.add(o, q); err != nil {
					return err
				}
			}
		default:
			return fmt.Errorf("%s: unknown key %q in roles: want enabled, account, %s", r.at(p), name,
				strings.Join(RoleNames, ", "))
		}
	}
	return nil
}

// mapping returns the pairs of a node that is a mapping.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// scalar returns a node's text in the form that the option's flag or variable has.
func scalar(o *option, n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		// The text as it stands in the file: 010 and 1e3 mean to an option what they mean in a flag.
		return n.GetToken().Value, nil
	case *ast.SequenceNode:
		switch {
		case o.name == "accounts":
			return accountList(n)
		case o.name == "oauth-roles", o.name == "oauth-groups":
			return joined(n, ";")
		case o.kind == "list":
			return joined(n, ",")
		}
	}
	return "", errors.New("want a single value")
}

func joined(n ast.Node, separator string) (string, error) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return "", errors.New("want a list")
	}
	var parts []string
	for _, v := range list.Values {
		s, ok := v.(*ast.StringNode)
		// A separator within a word would make two words of it in the form that the option parses.
		if !ok || strings.Contains(s.Value, separator) {
			return "", errors.New("want a list of words")
		}
		parts = append(parts, s.Value)
	}
	return strings.Join(parts, separator), nil
}

// accountList turns a list of {name, keys, settings} into the form of the environment variable.
func accountList(n *ast.SequenceNode) (string, error) {
	var accounts []string
	for i, item := range n.Values {
		pairs, ok := mapping(item)
		if !ok {
			return "", fmt.Errorf("account %d: want name and keys", i+1)
		}
		var name, keys string
		var settings accountprops.Overrides
		for _, p := range pairs {
			var err error
			switch key := p.Key.GetToken().Value; key {
			case "name":
				// A name such as 123 is a number in YAML, whose text may have changed.
				s, ok := p.Value.(*ast.StringNode)
				if !ok {
					return "", fmt.Errorf("account %d: name is not a word; quote it", i+1)
				}
				name = s.Value
			case "keys":
				if keys, err = joined(p.Value, ":"); err != nil {
					return "", fmt.Errorf("account %d: keys: %w", i+1, err)
				}
			default:
				if !accountprops.Known(kebab(key)) {
					return "", fmt.Errorf("account %d: unknown key %q: want name, keys, and settings: %s", i+1, key,
						accountprops.SettingNames())
				}
				if settings.Has(kebab(key)) {
					return "", fmt.Errorf("account %d: %s is given twice", i+1, kebab(key))
				}
				value, err := settingText(p.Value)
				if err != nil {
					return "", fmt.Errorf("account %d: %s: %w", i+1, key, err)
				}
				if settings, err = settings.With(kebab(key), value); err != nil {
					return "", fmt.Errorf("account %d: %w", i+1, err)
				}
			}
		}
		accounts = append(accounts, name+":"+keys+" "+settings.String())
	}
	return strings.Join(accounts, ";"), nil
}

// settingText is the value of an account's setting as text: of a list, its words with commas between them.
func settingText(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.SequenceNode:
		return joined(n, ",")
	case *ast.StringNode:
		return n.Value, nil
	case *ast.IntegerNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	}
	return "", errors.New("want a single value or a list of words")
}
