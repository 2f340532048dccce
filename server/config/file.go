package config

import (
	"errors"
	"fmt"
	"io"
	"os"
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
	var list []setting
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
			where := fmt.Sprintf("%s:%d", path, p.Key.GetToken().Position.Line)
			name := p.Key.GetToken().Value
			o := lookup(kebab(name))
			if o == nil || o.get == nil {
				return nil, fmt.Errorf("%s: unknown option %q", where, name)
			}
			value, err := scalar(o, p.Value)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", where, o.name, err)
			}
			for _, s := range list {
				if s.option == o {
					return nil, fmt.Errorf("%s: %s is given twice", where, o.name)
				}
			}
			list = append(list, setting{o, value, FromFile, where + ": " + o.name})
		}
	}
	return list, nil
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
