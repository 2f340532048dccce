package parquet

import (
	"errors"
	"fmt"
)

// Kind is the stored type of a column's values.
type Kind byte

// Physical types.
const (
	Boolean Kind = iota
	Int32
	Int64
	Int96
	Float
	Double
	ByteArray
	FixedLenByteArray
)

// Meaning is the logical type of a column's values.
type Meaning byte

// The logical types, and older converted types, that affect how a value is read.
const (
	Plain Meaning = iota
	Decimal
	Date
	Millis // since 1970, as the next two
	Micros
	Nanos
	Unsigned
	UUID
	Float16
)

// Column is a leaf of the schema.
type Column struct {
	// Name is the path of the column, joined by dots.
	Name string
	Kind Kind
	// Length is the length in bytes of FixedLenByteArray.
	Length  int
	Meaning Meaning
	// Scale is the number of decimals of a Decimal.
	Scale int
	// Repeated is set for columns with any number of values per row, which are not supported.
	Repeated bool

	levels uint32 // the definition level of a value: how many of its ancestors and itself are optional
}

const (
	// MaxColumns is the maximum number of columns in a file.
	MaxColumns = 10_000
	// maxNames is the maximum total length of their paths in bytes.
	maxNames = 4 << 20
)

var (
	errSchema  = errors.New("its schema is damaged")
	errColumns = fmt.Errorf("it has more than %d columns, or names that are too long", MaxColumns)
)

// element is a node of the schema as it is stored: in depth-first order.
type element struct {
	kind, length, repetition int32 // kind is -1 for groups
	name                     []byte
	children                 int32
	meaning                  Meaning
	scale                    int32
}

func (e *element) read(r *thrift) {
	*e = element{kind: -1}
	logical := false
	r.fields(func(id int16, kind byte) bool {
		switch id {
		case 1:
			e.kind = r.int32()
		case 2:
			e.length = r.int32()
		case 3:
			e.repetition = r.int32()
		case 4:
			e.name = r.bytes()
		case 5:
			e.children = r.int32()
		case 6:
			// The logical type replaced the converted type. Writers give both, in either order, and the logical one has more
			// detail.
			if n := r.int32(); !logical {
				e.meaning = converted(n)
			}
		case 7:
			e.scale = r.int32()
		case 10:
			logical = true
			e.logical(r, kind)
		default:
			return false
		}
		return true
	})
}

// converted returns the meaning of a ConvertedType.
func converted(n int32) Meaning {
	switch n {
	case 5:
		return Decimal
	case 6:
		return Date
	case 9:
		return Millis
	case 10:
		return Micros
	case 11, 12, 13, 14:
		return Unsigned
	}
	return Plain
}

// logical reads the union LogicalType.
func (e *element) logical(r *thrift, kind byte) {
	e.meaning = Plain
	r.structure(kind, func(id int16, kind byte) bool {
		switch id {
		// Numbers are those of LogicalType in parquet.thrift.
		case 5:
			e.meaning = Decimal
			return r.structure(kind, func(id int16, _ byte) bool {
				if id == 1 {
					e.scale = r.int32()
				}
				return id == 1
			})
		case 6:
			e.meaning = Date
		case 8:
			return r.structure(kind, func(id int16, kind byte) bool {
				return id == 2 && r.structure(kind, func(id int16, _ byte) bool {
					// Milliseconds, microseconds and nanoseconds are fields 1 to 3 of TimeUnit.
					if id >= 1 && id <= 3 {
						e.meaning = Millis + Meaning(id-1)
					}
					return false
				})
			})
		case 10:
			return r.structure(kind, func(id int16, kind byte) bool {
				if id == 2 && kind == thriftFalse {
					e.meaning = Unsigned
				}
				return false
			})
		case 14:
			e.meaning = UUID
		case 15:
			e.meaning = Float16
		}
		return false
	})
}

// schema converts the elements to columns.
type schema struct {
	r       *thrift
	left    int // elements that have not been read
	names   int // bytes
	columns []Column
}

// readSchema reads a list of schema elements.
func readSchema(r *thrift) ([]Column, error) {
	s := schema{r: r, left: r.list()}
	var root element
	if err := s.next(&root); err != nil {
		return nil, err
	}
	if err := s.children(&root, "", Column{}, 1); err != nil {
		return nil, err
	}
	if s.left > 0 || len(s.columns) == 0 {
		return nil, errSchema
	}
	return s.columns, nil
}

func (s *schema) next(e *element) error {
	if s.r.err == nil && s.left == 0 {
		return errSchema
	}
	s.left--
	e.read(s.r)
	return s.r.err
}

// children reads the descendants of a group. above has the path and levels of the group.
func (s *schema) children(group *element, path string, above Column, depth int) error {
	// Groups nest as deep as the file says; the stack is ours.
	if depth > maxDepth {
		return errDeep
	}
	for range group.children {
		var e element
		if err := s.next(&e); err != nil {
			return err
		}
		c := above
		c.Name = path + string(e.name)
		// Names are repeated in each path: a long name of an outer group counts for each column in it.
		if s.names += len(c.Name); s.names > maxNames || len(s.columns) >= MaxColumns {
			return errColumns
		}
		// 0 is required, which needs no level; 1 is optional and 2 repeated.
		switch e.repetition {
		case 0:
		case 1:
			c.levels++
		case 2:
			c.levels++
			c.Repeated = true
		default:
			return errSchema
		}
		// An element without a type is a group.
		if e.kind < 0 {
			if err := s.children(&e, c.Name+".", c, depth+1); err != nil {
				return err
			}
			continue
		}
		if e.children != 0 || e.kind > int32(FixedLenByteArray) || !e.fits() {
			return errSchema
		}
		c.Kind = Kind(e.kind)
		c.Length = int(e.length)
		c.Meaning = e.meaning
		c.Scale = int(e.scale)
		s.columns = append(s.columns, c)
	}
	return nil
}

// maxValue is the maximum length of a value in bytes.
const maxValue = 16 << 20

// fits reports whether a leaf's length is valid for its physical type, and removes a logical type that the physical
// type cannot have.
func (e *element) fits() bool {
	kind, n := Kind(e.kind), e.length
	if kind == FixedLenByteArray && (n <= 0 || n > maxValue) {
		return false
	}
	ok := true
	switch e.meaning {
	case Decimal:
		ok = kind == Int32 || kind == Int64 || kind == ByteArray || kind == FixedLenByteArray
	case Date:
		ok = kind == Int32
	case Millis, Micros, Nanos:
		ok = kind == Int64
	case Unsigned:
		ok = kind == Int32 || kind == Int64
	case UUID:
		ok = kind == FixedLenByteArray && n == 16
	case Float16:
		ok = kind == FixedLenByteArray && n == 2
	}
	if !ok {
		e.meaning = Plain
	}
	return true
}
