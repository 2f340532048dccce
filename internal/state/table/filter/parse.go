package filter

import (
	"errors"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
)

// Bounds of a filter. Azure documents 15 comparisons and accepts more; these bounds limit only the work of one request.
const (
	maxLength      = 32 << 10
	maxDepth       = 200
	maxComparisons = 1000
)

// Parse parses a filter. It fails with an *Error.
func Parse(text string) (Filter, error) {
	if text == "" {
		return Filter{}, nil
	}
	p := parser{lexer: lexer{text: text}}
	if len(text) > maxLength {
		return Filter{}, p.fail(maxLength, "the filter is too long")
	}
	if err := p.advance(); err != nil {
		return Filter{}, err
	}
	// A filter of spaces alone is no filter.
	if p.token.kind == endToken {
		return Filter{}, nil
	}
	all, err := p.or()
	if err != nil {
		return Filter{}, err
	}
	if p.token.kind != endToken {
		return Filter{}, p.unexpected("an operator or the end")
	}
	// Only here is known that the whole is to be a condition: "(Flag)" could also have been one side of a comparison.
	root, err := p.condition(all)
	return Filter{root}, err
}

type parser struct {
	lexer
	token       token
	depth       int
	comparisons int
}

func (p *parser) advance() (err error) {
	p.token, err = p.next()
	return err
}

func (p *parser) unexpected(wanted string) error {
	switch p.token.kind {
	case endToken:
		return p.fail(p.token.at, "the filter ends where %s is expected", wanted)
	case openToken:
		return p.fail(p.token.at, "unexpected \"(\": expected %s", wanted)
	case closeToken:
		return p.fail(p.token.at, "unexpected \")\": expected %s", wanted)
	case wordToken:
		return p.fail(p.token.at, "unexpected %q: expected %s", p.token.text, wanted)
	}
	return p.fail(p.token.at, "unexpected constant: expected %s", wanted)
}

func (p *parser) word(w string) bool { return p.token.kind == wordToken && p.token.text == w }

// ErrFunction is the error for a function of OData, none of which the Table service has
// (https://github.com/Azure/azure-sdk-for-js/issues/19494, https://github.com/Azure/azure-sdk-for-python/issues/20283).
var ErrFunction = errors.New("a function is not supported")

// functions are the functions of OData 3:
// https://www.odata.org/documentation/odata-version-3-0/url-conventions/
var functions = func() map[string]bool {
	m := map[string]bool{}
	for name := range strings.FieldsSeq("substringof endswith startswith length indexof replace substring tolower toupper " +
		"trim concat day hour minute month second year round floor ceiling isof cast") {
		m[name] = true
	}
	return m
}()

// operand is an expression, at the least one side of a comparison: exactly one of its fields other than at is set.
// Whether it has to be a condition depends on its place, since parentheses may also enclose a property or a constant.
type operand struct {
	at        int
	condition node
	property  string
	value     entity.Value
}

func (p *parser) or() (operand, error) { return p.chain("or", (*parser).and) }

func (p *parser) and() (operand, error) { return p.chain("and", (*parser).not) }

// chain parses operands that are joined by one operator.
func (p *parser) chain(op string, next func(*parser) (operand, error)) (operand, error) {
	left, err := next(p)
	for err == nil && p.word(op) {
		j := junction{and: op == "and"}
		// A single operand stays what it is, for a comparison around its parentheses. An operator makes both sides
		// conditions.
		if j.left, err = p.condition(left); err != nil {
			break
		}
		if err = p.advance(); err != nil {
			break
		}
		var right operand
		if right, err = next(p); err != nil {
			break
		}
		j.right, err = p.condition(right)
		left = operand{at: left.at, condition: j}
	}
	return left, err
}

func (p *parser) not() (operand, error) {
	if !p.word("not") {
		return p.comparison()
	}
	// "not" may also be the name of a property: then an operator follows.
	at := p.lexer.at
	negation := p.token
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	if _, isOp := p.operator(); isOp || p.token.kind == endToken || p.token.kind == closeToken || p.word("and") ||
		p.word("or") {
		// Back to the word: it is a property on the left of an operator.
		p.lexer.at, p.token = at, negation
		return p.comparison()
	}
	if p.depth++; p.depth > maxDepth {
		return operand{}, p.fail(negation.at, "the filter is nested too deeply")
	}
	defer func() { p.depth-- }()
	of, err := p.not()
	if err != nil {
		return operand{}, err
	}
	n, err := p.condition(of)
	return operand{at: negation.at, condition: not{n}}, err
}

func (p *parser) operator() (operator, bool) {
	if p.token.kind == wordToken {
		for i, name := range operatorNames {
			if p.token.text == name {
				return operator(i), true
			}
		}
	}
	return 0, false
}

func (p *parser) operand() (o operand, err error) {
	o.at = p.token.at
	switch p.token.kind {
	case openToken:
		if p.depth++; p.depth > maxDepth {
			return o, p.fail(o.at, "the filter is nested too deeply")
		}
		defer func() { p.depth-- }()
		if err = p.advance(); err != nil {
			return o, err
		}
		at := o.at
		if o, err = p.or(); err != nil {
			return o, err
		}
		o.at = at
		if p.token.kind != closeToken {
			return o, p.unexpected("\")\"")
		}
	case wordToken:
		o.property = p.token.text
		if err = p.advance(); err == nil && p.token.kind == openToken && functions[o.property] {
			err = ErrFunction
		}
		return o, err
	case constantToken:
		o.value = p.token.value
	default:
		return o, p.unexpected("a property or a constant")
	}
	return o, p.advance()
}

func (p *parser) comparison() (operand, error) {
	left, err := p.operand()
	if err != nil {
		return left, err
	}
	op, ok := p.operator()
	if !ok {
		return left, nil
	}
	if p.comparisons++; p.comparisons > maxComparisons {
		return left, p.fail(p.token.at, "the filter has too many comparisons")
	}
	if err := p.advance(); err != nil {
		return left, err
	}
	right, err := p.operand()
	if err != nil {
		return left, err
	}
	n, err := p.compare(left, op, right)
	return operand{at: left.at, condition: n}, err
}

func (p *parser) compare(left operand, op operator, right operand) (node, error) {
	switch {
	case left.property != "" && right.value.Type != 0:
		return comparison{op, left.property, right.value}, nil
	// The evaluation and the plan know constants on the right only.
	case left.value.Type != 0 && right.property != "":
		return comparison{op.mirrored(), right.property, left.value}, nil
	case left.value.Type != 0 && right.value.Type != 0:
		// Two constants have one value for all entities. Computed here, "1 eq 2" reads no key at all.
		return literal(op.accepts(left.value, right.value)), nil
	case left.condition != nil && right.value.Type == entity.Boolean && (op == eq || op == ne):
		return truth(left.condition, right.value.Num != 0 == (op == eq)), nil
	case left.value.Type == entity.Boolean && right.condition != nil && (op == eq || op == ne):
		return truth(right.condition, left.value.Num != 0 == (op == eq)), nil
	case left.property != "" && right.property != "":
		return nil, p.fail(right.at, "two properties cannot be compared: one side must be a constant")
	}
	return nil, p.fail(left.at, "a condition cannot be compared with that")
}

func truth(n node, want bool) node {
	if want {
		return n
	}
	return not{n}
}

// condition returns an operand as a condition. It fails for an operand that is not one.
func (p *parser) condition(o operand) (node, error) {
	switch {
	case o.condition != nil:
		return o.condition, nil
	case o.property != "":
		if p.comparisons++; p.comparisons > maxComparisons {
			return nil, p.fail(o.at, "the filter has too many comparisons")
		}
		// A property alone holds if it is true. It counts as a comparison: it is one at each entity.
		return comparison{eq, o.property, entity.BoolValue(true)}, nil
	case o.value.Type == entity.Boolean:
		return literal(o.value.Num != 0), nil
	}
	return nil, p.fail(o.at, "a constant that is not a Boolean is not a condition")
}
