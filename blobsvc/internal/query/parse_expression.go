package query

import (
	"strconv"
	"strings"
)

// From weakest to strongest: OR, AND, NOT, predicates, + -, * / %, sign, operands.

func (p *parser) expression() (expression, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, refuse("The expression is nested too deeply.")
	}
	defer func() { p.depth-- }()
	return p.chain(p.conjunction, func(l, r expression) expression { return &logic{left: l, right: r, decides: 1} }, "OR")
}

func (p *parser) conjunction() (expression, error) {
	return p.chain(p.negation, func(l, r expression) expression { return &logic{left: l, right: r} }, "AND")
}

// chain parses operands joined by word.
func (p *parser) chain(operand func() (expression, error), join func(l, r expression) expression,
	word string) (expression, error) {
	left, err := operand()
	for err == nil && p.accept(word) {
		var right expression
		if right, err = operand(); err == nil {
			left = join(left, right)
		}
	}
	return left, err
}

func (p *parser) negation() (expression, error) {
	// A row of any length becomes at most two nodes, since evaluation is recursive. An even one becomes two and not
	// none: NOT makes its operand a truth value.
	odd, any := false, false
	for p.accept("NOT") {
		odd, any = !odd, true
	}
	e, err := p.predicate()
	if err != nil || !any {
		return e, err
	}
	e = &not{e}
	if !odd {
		e = &not{e}
	}
	return e, nil
}

func (p *parser) predicate() (expression, error) {
	left, err := p.sum()
	if err != nil {
		return nil, err
	}
	t := p.peek()
	if t.kind == tokSymbol {
		if op, ok := comparisons[t.text]; ok {
			p.at++
			right, err := p.sum()
			return &comparison{op, left, right}, err
		}
		return left, nil
	}
	if p.accept("IS") {
		negated := p.accept("NOT")
		e := &absence{of: left, negated: negated}
		switch {
		case p.accept("MISSING"):
			e.onlyMissing = true
		case !p.accept("NULL"):
			return nil, errSyntax
		}
		return e, nil
	}
	// A NOT here is that of NOT BETWEEN, NOT IN or NOT LIKE; one before the predicate is read by negation.
	negated := p.accept("NOT")
	var e expression
	switch {
	case p.accept("BETWEEN"):
		e, err = p.between(left)
	case p.accept("IN"):
		e, err = p.in(left)
	case p.accept("LIKE"):
		e, err = p.like(left)
	case negated:
		return nil, errSyntax
	default:
		return left, nil
	}
	if err == nil && negated {
		e = &not{e}
	}
	return e, err
}

func (p *parser) between(of expression) (expression, error) {
	low, err := p.sum()
	if err != nil {
		return nil, err
	}
	if err := p.expect("AND"); err != nil {
		return nil, err
	}
	high, err := p.sum()
	return &between{of, low, high}, err
}

func (p *parser) in(of expression) (expression, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	list, err := p.arguments()
	if err == nil && len(list) == 0 {
		err = errSyntax
	}
	return &membership{of, list}, err
}

// arguments parses expressions up to the closing bracket.
func (p *parser) arguments() (list []expression, err error) {
	if p.accept(")") {
		return nil, nil
	}
	for {
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		list = append(list, e)
		if p.accept(")") {
			return list, nil
		}
		if err := p.expect(","); err != nil {
			return nil, err
		}
	}
}

func (p *parser) like(of expression) (expression, error) {
	pattern, err := p.sum()
	if err != nil {
		return nil, err
	}
	e := &like{of: of, pattern: pattern}
	if p.accept("ESCAPE") {
		t := p.next()
		if t.kind != tokString || len([]rune(t.text)) != 1 {
			return nil, errSyntax
		}
		e.escape = []rune(t.text)[0]
	}
	return e, nil
}

func (p *parser) sum() (expression, error) { return p.arithmetic(p.product, "+-") }

func (p *parser) product() (expression, error) { return p.arithmetic(p.signed, "*/%") }

func (p *parser) arithmetic(operand func() (expression, error), operators string) (expression, error) {
	left, err := operand()
	for err == nil {
		t := p.peek()
		if t.kind != tokSymbol || len(t.text) != 1 || !strings.Contains(operators, t.text) {
			break
		}
		p.at++
		var right expression
		if right, err = operand(); err == nil {
			left = &arithmetic{t.text[0], left, right}
		}
	}
	return left, err
}

func (p *parser) signed() (expression, error) {
	negative := false
	for {
		switch {
		case p.accept("-"):
			negative = !negative
			continue
		case p.accept("+"):
			continue
		}
		break
	}
	if t := p.peek(); t.kind == tokNumber { // including its sign, so that the smallest integer can be written
		p.at++
		if negative {
			t.text = "-" + t.text
		}
		return number(t.text)
	}
	e, err := p.operand()
	if negative {
		e = &arithmetic{'-', constant{intValue(0)}, e}
	}
	return e, err
}

func number(s string) (expression, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return constant{intValue(n)}, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, errSyntax
	}
	return constant{floatValue(f)}, nil
}

func (p *parser) operand() (expression, error) {
	t := p.next()
	switch {
	case t.kind == tokString:
		return constant{textValue(t.text)}, nil
	case t.is("("):
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		return e, p.expect(")")
	// A quoted name is that of a field, even if the word is reserved.
	case t.kind == tokQuoted && t.text != "":
		return p.field(t)
	case t.kind != tokName:
		return nil, errSyntax
	case t.is("TRUE"):
		return constant{yes}, nil
	case t.is("FALSE"):
		return constant{no}, nil
	case t.is("NULL"):
		return constant{nullValue}, nil
	case t.is("MISSING"):
		return constant{value{}}, nil
	case p.peek().is("("):
		p.at++
		return p.call(strings.ToUpper(t.text))
	case reserved[strings.ToUpper(t.text)]:
		return nil, errSyntax
	}
	return p.field(t)
}

// field parses a reference to a field, whose first name is t.
func (p *parser) field(t token) (expression, error) {
	rest, err := p.path(false)
	if err != nil {
		return nil, err
	}
	f := &field{path: append([]step{{name: t.text, exact: t.kind == tokQuoted}}, rest...), column: -1}
	p.st.fields = append(p.st.fields, f)
	return f, nil
}

// call parses a function call after its opening bracket. Some functions have a special grammar.
func (p *parser) call(name string) (expression, error) {
	switch name {
	case "CAST":
		return p.cast()
	case "TRIM":
		return p.trim()
	case "EXTRACT":
		return p.extract()
	case "DATE_ADD", "DATE_DIFF":
		return p.dateFunction(name)
	}
	// The aggregate that is a whole column was read before, by column.
	if aggregates[name] {
		return nil, refuse("%s cannot be part of another expression.", name)
	}
	f, ok := functions[name]
	if !ok {
		return nil, refuse("There is no function %s.", name)
	}
	list, err := p.arguments()
	if err != nil {
		return nil, err
	}
	if len(list) < f.least || f.most >= 0 && len(list) > f.most {
		return nil, refuse("The function %s has other arguments.", name)
	}
	if name == "UTCNOW" {
		return constant{timeValue(p.now.UTC())}, nil
	}
	return f.build(list), nil
}

func (p *parser) cast() (expression, error) {
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	if err := p.expect("AS"); err != nil {
		return nil, err
	}
	to, ok := types[strings.ToUpper(p.next().text)]
	if !ok {
		return nil, errSyntax
	}
	return &cast{e, to}, p.expect(")")
}

// types are the type names of CAST: the ones in the reference, INTEGER and BOOL.
var types = map[string]kind{"INT": integer, "INTEGER": integer, "FLOAT": float, "STRING": text, "TIMESTAMP": timestamp,
	"BOOLEAN": boolean, "BOOL": boolean}

// trim parses TRIM([BOTH | LEADING | TRAILING] [characters FROM] text).
func (p *parser) trim() (expression, error) {
	e := &trim{leading: true, trailing: true, cutset: constant{textValue(" ")}}
	switch {
	case p.accept("LEADING"):
		e.trailing = false
	case p.accept("TRAILING"):
		e.leading = false
	default:
		p.accept("BOTH")
	}
	var err error
	if !p.accept("FROM") {
		if e.of, err = p.expression(); err != nil {
			return nil, err
		}
		if !p.accept("FROM") {
			return e, p.expect(")")
		}
		e.cutset = e.of
	}
	if e.of, err = p.expression(); err != nil {
		return nil, err
	}
	return e, p.expect(")")
}

// extract parses EXTRACT(part FROM timestamp).
func (p *parser) extract() (expression, error) {
	part, err := p.datePart(true)
	if err != nil {
		return nil, err
	}
	if err := p.expect("FROM"); err != nil {
		return nil, err
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	return &extract{part, e}, p.expect(")")
}

// dateFunction parses DATE_ADD(part, quantity, timestamp) or DATE_DIFF(part, timestamp, timestamp).
func (p *parser) dateFunction(name string) (expression, error) {
	part, err := p.datePart(false)
	if err != nil {
		return nil, err
	}
	if err := p.expect(","); err != nil {
		return nil, err
	}
	list, err := p.arguments()
	if err != nil {
		return nil, err
	}
	if len(list) != 2 {
		return nil, refuse("The function %s has other arguments.", name)
	}
	if name == "DATE_ADD" {
		return &dateAdd{part, list[0], list[1]}, nil
	}
	return &dateDiff{part, list[0], list[1]}, nil
}

// datePart parses a part of a date as a name or a string. zones also accepts the parts that only EXTRACT has.
func (p *parser) datePart(zones bool) (datePart, error) {
	t := p.next()
	part, ok := dateParts[strings.ToUpper(t.text)]
	if !ok || t.kind != tokName && t.kind != tokString || !zones && part >= zoneHour {
		return 0, errSyntax
	}
	return part, nil
}
