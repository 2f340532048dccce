package tables

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// Names of the service's own properties.
const (
	partitionKey = "PartitionKey"
	rowKey       = "RowKey"
	timestamp    = "Timestamp"
	etagMember   = "odata.etag"
	typeSuffix   = "@odata.type"
)

// maxProperties is the service's limit, without the keys and Timestamp.
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#entity
const maxProperties = 252

// property is a field that is stored.
type property struct {
	name    string
	field   string // the Go field, for errors
	index   []int
	codec   valueCodec
	typ     reflect.Type
	omit    bool // if it is the zero value
	encrypt bool
}

// schema describes how a struct type is stored.
type schema struct {
	typ        reflect.Type
	properties []property
	byName     map[string]int
	encrypting bool // some property is encrypted
	// The system's properties: indexes of fields, nil if the struct has no such field.
	partition, row, stamp, etag []int
	// computedPartition and computedRow mean that methods compute the keys: the pointer type is a partitioned, or a rowed.
	computedPartition, computedRow bool
}

// partitioned and rowed are the types whose methods compute a key. Calling these by reflection would make the linker
// keep all exported methods of a program.
type (
	partitioned interface{ PartitionKey() string }
	rowed       interface{ RowKey() string }
)

// validPropertyName reports whether name is a C# identifier, as the service wants it, of at most 255 characters. It is
// no regular expression: one with this limit takes 10 MB and 7 ms to compile.
func validPropertyName(name string) bool {
	n := 0
	for _, r := range name {
		if r != '_' && !unicode.IsLetter(r) && !unicode.Is(unicode.Nl, r) &&
			(n == 0 || !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Cf)) {
			return false
		}
		n++
	}
	return n > 0 && n <= 255
}

var (
	etagType = reflect.TypeFor[azcore.ETag]()
	sdkTypes = map[reflect.Type]string{
		reflect.TypeFor[aztables.EDMInt64]():    "int64",
		reflect.TypeFor[aztables.EDMBinary]():   "[]byte",
		reflect.TypeFor[aztables.EDMGUID]():     "uuid.UUID",
		reflect.TypeFor[aztables.EDMDateTime](): "time.Time",
	}
)

// schemaOf reads a struct type. One error lists all of its problems. A projection needs no keys.
func schemaOf(t reflect.Type, projection bool) (*schema, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("tables: %v is not a struct", t)
	}
	s := &schema{typ: t, byName: map[string]int{}}
	var errs []error
	// Problems are collected, since a programmer wants to see all of them at once: each attempt is a build and a
	// start.
	s.addFields(t, nil, func(field string, err error) { errs = append(errs, fmt.Errorf("field %s: %w", field, err)) })
	errs = append(errs, s.findMethods())
	if !projection {
		if s.partition == nil && !s.computedPartition {
			errs = append(errs, errors.New("neither a string field nor a method `PartitionKey() string`"))
		}
		if s.row == nil && !s.computedRow {
			errs = append(errs, errors.New("neither a string field nor a method `RowKey() string`"))
		}
	}
	if n := len(s.properties); n > maxProperties {
		errs = append(errs, fmt.Errorf("%d properties; an entity has at most %d", n, maxProperties))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("tables: the type %v cannot be stored: %w", t, err)
	}
	return s, nil
}

// addFields adds a struct's fields, and those of embedded structs.
func (s *schema) addFields(t reflect.Type, at []int, fail func(string, error)) {
	for i := range t.NumField() {
		f := t.Field(i)
		// A copy: the index is kept in the schema, and an append to at itself would share its array with the sibling
		// fields.
		index := append(append([]int(nil), at...), i)
		tag, tagged := f.Tag.Lookup("table")
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" && options == "" {
			continue
		}
		// As in encoding/json, the fields of an embedded struct are the outer struct's own, unless a tag names it as
		// one property. This comes before the test for exported fields: the fields of an embedded struct of a private
		// type are promoted too.
		if f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct && f.Type != timeType {
			s.addFields(f.Type, index, fail)
			continue
		}
		if !f.IsExported() {
			if tagged {
				fail(f.Name, errors.New("it has a tag and is not exported"))
			}
			continue
		}
		// FieldByIndex panics at a nil pointer on its way, so that each read and write would have to test for it.
		if f.Anonymous && !tagged && f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct {
			fail(f.Name, errors.New("an embedded struct cannot be a pointer"))
			continue
		}
		if name == "" {
			name = f.Name
		}
		if err := s.addField(f, name, options, index); err != nil {
			fail(f.Name, err)
		}
	}
}

func (s *schema) addField(f reflect.StructField, name, options string, index []int) error {
	// The keys, the Timestamp and the ETag are system properties: they have places of their own in the schema, and
	// never stand among the properties that are written.
	if f.Type == etagType {
		return claim(&s.etag, index, "an ETag")
	}
	switch name {
	case partitionKey, rowKey:
		if f.Type.Kind() != reflect.String {
			return fmt.Errorf("the %s is a string, not %v; a method %s() string can compute it", name, f.Type, name)
		}
		if options != "" {
			return fmt.Errorf("the %s has no options", name)
		}
		return claim(map[string]*[]int{partitionKey: &s.partition, rowKey: &s.row}[name], index, "a "+name)
	case timestamp:
		if f.Type != timeType {
			return fmt.Errorf("the Timestamp is a time.Time, not %v", f.Type)
		}
		return claim(&s.stamp, index, "a Timestamp")
	}
	p := property{name: name, field: f.Name, index: index, typ: f.Type}
	if !validPropertyName(name) {
		return fmt.Errorf("%q is not a property name: letters, digits and _, not beginning with a digit", name)
	}
	// A property with this name would be taken for the description of the encryption when the entity is read.
	if strings.HasPrefix(name, metadataPrefix) {
		return fmt.Errorf("the property name %q is reserved for client-side encryption", name)
	}
	asJSON := false
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "":
		case "json":
			asJSON = true
		case "omitzero":
			p.omit = true
		case "encrypt":
			p.encrypt, s.encrypting = true, true
		default:
			return fmt.Errorf("the tag has the unknown option %q; there are json, omitzero and encrypt", option)
		}
	}
	switch {
	// json comes before the SDK's types: as JSON text even those can be stored.
	case asJSON:
		p.codec = jsonCodec
		switch f.Type.Kind() {
		// The service has no null. Without this, a nil value would be stored as the text "null".
		case reflect.Map, reflect.Slice, reflect.Pointer, reflect.Interface:
			p.codec.absent = func(v reflect.Value) bool { return v.IsNil() }
		case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128:
			return fmt.Errorf("%v has no JSON", f.Type)
		}
	case sdkTypes[f.Type] != "":
		return fmt.Errorf("use %s in place of the SDK's %v", sdkTypes[f.Type], f.Type)
	default:
		var err error
		if p.codec, err = codecOf(f.Type); err != nil {
			return fmt.Errorf("%w; the option json stores any value as text", err)
		}
	}
	// An embedded struct may bring a name that the outer one has. The service would refuse the double property at each
	// write; here the first use of the type says which two fields they are.
	if i, taken := s.byName[name]; taken {
		return fmt.Errorf("the property %s is already the property of the field %s", name, s.properties[i].field)
	}
	s.byName[name] = len(s.properties)
	s.properties = append(s.properties, p)
	return nil
}

func claim(place *[]int, index []int, what string) error {
	if *place != nil {
		return fmt.Errorf("there is %s already", what)
	}
	*place = index
	return nil
}

// findMethods finds the methods that compute keys. The linker recognises lookups of methods by a constant name, and
// needs to keep no others.
func (s *schema) findMethods() error {
	// The methods of the pointer include those of the value.
	t := reflect.PointerTo(s.typ)
	partition, hasPartition := t.MethodByName("PartitionKey")
	row, hasRow := t.MethodByName("RowKey")
	s.computedPartition, s.computedRow = hasPartition, hasRow
	return errors.Join(checkMethod(partition, hasPartition, s.partition != nil), checkMethod(row, hasRow, s.row != nil))
}

// checkMethod checks a method that computes a key.
func checkMethod(m reflect.Method, exists, field bool) error {
	switch {
	case !exists:
		return nil
	case m.Type.NumIn() != 1 || m.Type.NumOut() != 1 || m.Type.Out(0) != reflect.TypeFor[string]():
		return fmt.Errorf("the method %s is %v, not func() string", m.Name, m.Type)
	case field:
		return fmt.Errorf("there are both a field and a method for the %s", m.Name)
	}
	return nil
}

func (s *schema) has(property string) bool {
	_, ok := s.byName[property]
	return ok
}

// keyed reports whether the struct has both keys.
func (s *schema) keyed() bool {
	return (s.partition != nil || s.computedPartition) && (s.row != nil || s.computedRow)
}

// key returns the key of an addressable struct.
func (s *schema) key(v reflect.Value) (k Key) {
	switch {
	case s.computedPartition:
		k.PartitionKey = v.Addr().Interface().(partitioned).PartitionKey()
	case s.partition != nil:
		k.PartitionKey = v.FieldByIndex(s.partition).String()
	}
	switch {
	case s.computedRow:
		k.RowKey = v.Addr().Interface().(rowed).RowKey()
	case s.row != nil:
		k.RowKey = v.FieldByIndex(s.row).String()
	}
	return k
}

func (s *schema) getETag(v reflect.Value) azcore.ETag {
	if s.etag == nil {
		return ""
	}
	return azcore.ETag(v.FieldByIndex(s.etag).String())
}

func (s *schema) setETag(v reflect.Value, etag azcore.ETag) {
	if s.etag != nil {
		v.FieldByIndex(s.etag).SetString(string(etag))
	}
}

// encode hands the stored properties of a struct to w.
func (s *schema) encode(v reflect.Value, w *writer) error {
	for i := range s.properties {
		p := &s.properties[i]
		if !w.wants(p.name) {
			continue
		}
		f := v.FieldByIndex(p.index)
		if p.codec.absent != nil && p.codec.absent(f) || p.omit && f.IsZero() {
			continue
		}
		if err := w.property(p.name, p.codec.edm, p.encrypt, f, p.codec.append); err != nil {
			return fmt.Errorf("field %s: %w", p.field, err)
		}
	}
	return nil
}

// decode fills a zero struct from an entity. Properties without a field are skipped, fields without a property stay
// zero.
func (s *schema) decode(e *raw, v reflect.Value) error {
	if s.partition != nil {
		v.FieldByIndex(s.partition).SetString(e.key.PartitionKey)
	}
	if s.row != nil {
		v.FieldByIndex(s.row).SetString(e.key.RowKey)
	}
	if s.stamp != nil {
		v.FieldByIndex(s.stamp).Set(reflect.ValueOf(e.timestamp))
	}
	s.setETag(v, e.etag)
	for i := range e.properties {
		stored := &e.properties[i]
		at, ok := s.byName[stored.name]
		if !ok {
			continue
		}
		p := &s.properties[at]
		// A client that may write to the table could replace ciphertext by plain text of its choice. A field that must be
		// encrypted takes nothing else.
		if p.encrypt && !stored.decrypted {
			return fmt.Errorf("field %s: %w", p.field, ErrNotEncrypted)
		}
		if err := p.codec.set(v.FieldByIndex(p.index), stored.value, stored.edm); err != nil {
			return fmt.Errorf("field %s: %w", p.field, err)
		}
	}
	return nil
}

// checkKey compares the computed key of a struct that was read with the stored one: a difference would make the next
// write another entity.
func (s *schema) checkKey(e *raw, v reflect.Value) error {
	if !s.computedPartition && !s.computedRow {
		return nil
	}
	got, want := s.key(v), e.key
	if s.computedPartition && got.PartitionKey != want.PartitionKey {
		return fmt.Errorf("the stored PartitionKey %q is not the %q that the method PartitionKey computes", want.PartitionKey,
			got.PartitionKey)
	}
	if s.computedRow && got.RowKey != want.RowKey {
		return fmt.Errorf("the stored RowKey %q is not the %q that the method RowKey computes", want.RowKey, got.RowKey)
	}
	return nil
}

// lookup returns how a property can be compared.
func (s *schema) lookup(name string) (edm, error) {
	i, ok := s.byName[name]
	if !ok {
		return "", fmt.Errorf("%v has no property %q", s.typ, name)
	}
	if s.properties[i].encrypt {
		return "", fmt.Errorf("the property %q is encrypted: the service cannot compare it", name)
	}
	return s.properties[i].codec.edm, nil
}

// names are the properties, for $select.
func (s *schema) names() []string {
	list := []string{partitionKey, rowKey}
	if s.stamp != nil {
		list = append(list, timestamp)
	}
	for _, p := range s.properties {
		list = append(list, p.name)
	}
	if s.encrypting {
		list = append(list, metadata1, metadata2)
	}
	return list
}
