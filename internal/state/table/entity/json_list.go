package entity

import (
	"encoding/binary"
	"math"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// JSONList renders the entities of one answer, each byte for byte as [Form.AppendJSONEntity] does. The entities of a
// page mostly have the same partition, about the same Timestamp, and properties with the same names and types in the
// same order. A JSONList keeps the texts of all these, and copies each of them for as long as it is the right one.
//
// It belongs to one goroutine. Its memory depends on the entity with the most properties, not on their number.
type JSONList struct {
	form *Form

	// What stands before the value of RowKey, or before the selected properties, in an entity of partition that was
	// changed at time. At FullMetadata the address stands there twice: first ends before the RowKey of the address,
	// second before that of its repetition. Both are empty at the other levels.
	first, second, keys []byte
	timestamp           []byte // the member, with the comma before it
	partition           []byte
	time                ticks.Text
	begun               bool
	// Where the time stands in keys, or at FullMetadata in second, and in timestamp.
	tagTime, memberTime int

	slots []slot
	other slot   // for a property that its slot does not have
	room  []byte // memory for the texts of new slots

	chosen []chosen       // by index in form.Select
	index  map[string]int // of the names in form.Select that are not system properties
}

// slot is a place in the order of the properties, with the name and type that entities have had there.
type slot struct {
	stored []byte // the property before its value, as it is in a record, without tagPlainValue
	// head is the first eight bytes of stored, or all of it, and mask the bits in which a property has to agree with it:
	// one comparison of numbers is enough for short names.
	head, mask uint64
	text       []byte // the member before its value: comma, annotation and quote if the type has one, name, colon
	typ        Type
	size       int // of the values in bytes, -1 for types that store a length
	chosen     int // index in JSONList.chosen, -1 for none
	// left is the number of times that entities may have something else at this place before the slot is written again. A
	// table with entities of several kinds would otherwise write it for each of them.
	left int
	// typed says that the level has annotations.
	typed bool
	// time is the text of the last DateTime: the next one may be of the same second.
	time ticks.Text
}

// patience is the highest value of slot.left.
const patience = 4

// chosen is a selected property: that of the entity that is rendered, if it has it.
type chosen struct {
	system systemProperty
	null   []byte // the member if the entity lacks the property, with the comma before it
	found  bool
	slot   slot // a copy of what appendMember needs: the next property may be written into the same slot
	value  storedValue
}

type systemProperty uint8

const (
	notSystem systemProperty = iota
	partitionKey
	rowKey
	timestamp
)

// List returns a renderer for the entities of one answer. The form must not change until the last one, and its Select
// has no name twice.
func (f *Form) List() *JSONList {
	l := &JSONList{form: f}
	if f.Select == nil {
		return l
	}
	l.chosen, l.index = make([]chosen, len(f.Select)), make(map[string]int, len(f.Select))
	for i, name := range f.Select {
		c := &l.chosen[i]
		switch name {
		case "PartitionKey":
			c.system = partitionKey
		case "RowKey":
			c.system = rowKey
		case "Timestamp":
			c.system = timestamp
		default:
			l.index[name] = i
			c.null = append(AppendQuoted([]byte{','}, name), ":null"...)
		}
	}
	return l
}

// Append appends an entity. partition and row are UTF-8.
func (l *JSONList) Append(dst, partition, row []byte, r Record) []byte {
	at := r.Timestamp()
	if same := l.begun && string(l.partition) == string(partition); !same || !l.time.Is(at) && !l.retime(at) {
		l.begin(partition, at)
	}
	if l.form.Metadata == FullMetadata {
		dst = appendURI(append(dst, l.first...), row)
		dst = appendURI(append(dst, l.second...), row)
	}
	dst = append(dst, l.keys...)
	if l.form.Select != nil {
		return l.appendChosen(dst, partition, row, r)
	}
	if plain(row) {
		dst = append(dst, row...)
	} else {
		dst = appendEscaped(dst, row)
	}
	dst = append(append(dst, '"'), l.timestamp...)
	w := slotWalk{list: l, rest: r[recordHeader:]}
	for {
		s, v := w.next()
		if s == nil {
			return append(dst, '}')
		}
		dst = s.appendMember(dst, v)
	}
}

// retime writes another time into the texts, which stay as they are otherwise: the entities of a page have one
// partition, and each its own time. It reports false if the texts of the two times differ in length.
func (l *JSONList) retime(at ticks.Ticks) bool {
	n := len(l.time.Plain())
	l.time.Set(at)
	if len(l.time.Plain()) != n {
		return false
	}
	copy(l.timestamp[l.memberTime:], l.time.Plain())
	switch l.form.Metadata {
	case MinimalMetadata:
		copy(l.keys[l.tagTime:], l.time.Escaped())
	case FullMetadata:
		copy(l.second[l.tagTime:], l.time.Escaped())
	}
	return true
}

// begin writes the texts for a partition and a time.
func (l *JSONList) begin(partition []byte, at ticks.Ticks) {
	f := l.form
	l.begun = true
	l.partition = append(l.partition[:0], partition...)
	l.time.Set(at)
	etag := func(b []byte) []byte {
		b = append(b, `"odata.etag":"W/\"datetime'`...)
		l.tagTime = len(b)
		return append(append(b, l.time.Escaped()...), `'\""`...)
	}
	// The address up to the RowKey: what AppendAddress writes behind that is the same for all.
	address := func(b []byte) []byte {
		b = append(append(b, f.Table...), "(PartitionKey='"...)
		return append(appendURI(b, partition), "',RowKey='"...)
	}
	switch k := l.keys[:0]; f.Metadata {
	case NoMetadata:
		l.keys = append(k, '{')
	case MinimalMetadata:
		l.keys = etag(append(k, '{'))
	case FullMetadata:
		b := append(append(l.first[:0], `{"odata.type":"`...), f.Account...)
		b = append(append(append(b, '.'), f.Table...), `","odata.id":"`...)
		l.first = address(append(appendEscaped(b, f.Base), '/'))
		l.second = address(append(etag(append(l.second[:0], `')",`...)), `,"odata.editLink":"`...))
		l.keys = append(k, `')"`...)
	}
	l.timestamp = f.appendTimestamp(append(l.timestamp[:0], ','), &l.time)
	l.memberTime = len(l.timestamp) - len(l.time.Plain()) - len(`"`)
	if f.Select != nil {
		return
	}
	if f.Metadata != NoMetadata {
		l.keys = append(l.keys, ',')
	}
	l.keys = AppendQuoted(append(l.keys, `"PartitionKey":`...), partition)
	l.keys = append(l.keys, `,"RowKey":"`...)
}

// appendChosen appends the selected properties and the end of the entity, whose beginning is in dst.
func (l *JSONList) appendChosen(dst, partition, row []byte, r Record) []byte {
	for i := range l.chosen {
		l.chosen[i].found = false
	}
	// One pass over the properties, which are in another order, and not one for each name.
	w := slotWalk{list: l, rest: r[recordHeader:]}
	for left := len(l.index); left > 0; {
		s, v := w.next()
		if s == nil {
			break
		}
		if s.chosen < 0 {
			continue
		}
		if c := &l.chosen[s.chosen]; !c.found {
			c.found, c.value = true, v
			c.slot.typ, c.slot.typed, c.slot.text = s.typ, s.typed, append(c.slot.text[:0], s.text...)
			left--
		}
	}
	start := len(dst)
	for i := range l.chosen {
		switch c := &l.chosen[i]; {
		case c.system == partitionKey:
			dst = AppendQuoted(append(dst, `,"PartitionKey":`...), partition)
		case c.system == rowKey:
			dst = AppendQuoted(append(dst, `,"RowKey":`...), row)
		case c.system == timestamp:
			dst = append(dst, l.timestamp...)
		case c.found:
			dst = c.slot.appendMember(dst, c.value)
		default:
			dst = append(dst, c.null...)
		}
	}
	// Each member begins with a comma, which the first one in an object must not have.
	if len(dst) > start && dst[start-1] == '{' {
		dst = append(dst[:start], dst[start+1:]...)
	}
	return append(dst, '}')
}

// slotWalk walks the properties of a record, as [Iterator] does, beside the slots of a list.
type slotWalk struct {
	list *JSONList
	rest []byte
	at   int // the next slot
}

// next moves to the next property and returns it with its slot, which is nil at the end. The slot is valid until the
// next call.
func (w *slotWalk) next() (s *slot, v storedValue) {
	b := w.rest
	if len(b) == 0 {
		return nil, v
	}
	if l := w.list; w.at < len(l.slots) && l.slots[w.at].begins(b) {
		s = &l.slots[w.at]
		s.left = patience
	} else if s = w.find(); s == nil {
		return nil, v
	}
	w.at++
	at := len(s.stored)
	n := s.size
	if n < 0 {
		var size int
		if at < len(b) && b[at] < 0x80 { // the common case of uvarint
			n, size = int(b[at]), 1
		} else {
			var long uint64
			if long, size = uvarint(b[at:]); size <= 0 || long > uint64(len(b)-at-size) {
				return nil, v
			}
			n = int(long)
		}
		at += size
	}
	if n > len(b)-at {
		return nil, v
	}
	w.rest = b[at+n:]
	return s, storedValue{typ: s.typ, plain: b[0]&tagPlainValue != 0, data: b[at : at+n]}
}

// begins reports whether b begins with the slot's property.
func (s *slot) begins(b []byte) bool {
	if len(b) < 8 {
		return s.equals(b)
	}
	return (binary.LittleEndian.Uint64(b)^s.head)&s.mask == 0 && (len(s.stored) <= 8 || s.equals(b))
}

// equals is begins by a comparison of all bytes.
func (s *slot) equals(b []byte) bool {
	n := len(s.stored)
	return len(b) >= n && b[0]&^tagPlainValue == s.stored[0] && string(b[1:n]) == string(s.stored[1:])
}

// find returns the slot of the next property, which is not at its place, or nil if the property cannot be read.
func (w *slotWalk) find() (s *slot) {
	l := w.list
	// An entity may lack some of the properties that others have.
	for i := w.at + 1; i < min(w.at+4, len(l.slots)); i++ {
		if l.slots[i].begins(w.rest) {
			w.at = i
			return &l.slots[i]
		}
	}
	it := Iterator{rest: w.rest}
	if !it.Next() {
		return nil
	}
	switch {
	case w.at == len(l.slots) && w.at < maxProperties:
		l.slots = append(l.slots, slot{})
		s = &l.slots[w.at]
	case w.at < len(l.slots) && l.slots[w.at].left == 0:
		s = &l.slots[w.at]
	default:
		if w.at < len(l.slots) {
			l.slots[w.at].left--
		}
		s = &l.other
	}
	l.fill(s, &it)
	return s
}

// fill makes s the slot of a property.
func (l *JSONList) fill(s *slot, it *Iterator) {
	if s.stored == nil {
		// The texts of all slots lie in few pieces of memory. One that grows later gets memory of its own.
		const perSlot = 192
		if cap(l.room)-len(l.room) < perSlot {
			l.room = make([]byte, 0, 8*perSlot)
		}
		n := len(l.room)
		s.stored, s.text = l.room[n:n:n+perSlot/4], l.room[n+perSlot/4:n+perSlot/4:n+perSlot]
		l.room = l.room[:n+perSlot]
	}
	s.typ, s.size, s.left, s.chosen = it.Type, fixedSize[it.Type], patience, -1
	if i, ok := l.index[string(it.Name)]; ok {
		s.chosen = i
	}
	s.stored = append(s.stored[:0], it.tag&^tagPlainValue)
	s.stored = binary.AppendUvarint(s.stored, uint64(len(it.Name)))
	s.stored = append(s.stored, it.Name...)
	var first [8]byte
	copy(first[:], s.stored)
	s.head = binary.LittleEndian.Uint64(first[:])
	s.mask = (1<<(8*min(len(s.stored), len(first))) - 1) &^ tagPlainValue
	s.text = append(s.text[:0], ',')
	// Whether a Double has an annotation depends on its value.
	if l.form.Metadata != NoMetadata && it.Type != Double && annotated(it.Type, it.Data) {
		s.text = appendAnnotation(s.text, it)
	}
	s.text = append(appendName(s.text, it), `":`...)
	s.typed = l.form.Metadata != NoMetadata
	if s.quoted() {
		s.text = append(s.text, '"')
	}
}

// quoted reports whether the values are strings in JSON.
func (s *slot) quoted() bool { return s.typ != Boolean && s.typ != Int32 && s.typ != Double }

// appendMember appends a property of the slot with its value, with a comma before it.
func (s *slot) appendMember(dst []byte, v storedValue) []byte {
	d := v.data
	switch s.typ {
	case String:
		dst = append(dst, s.text...)
		if v.plain {
			dst = append(dst, d...)
		} else {
			dst = appendEscaped(dst, d)
		}
		return append(dst, '"')
	case Boolean, Int32:
		return v.appendTo(append(dst, s.text...))
	case Double:
		if s.typed && !finite(math.Float64frombits(binary.BigEndian.Uint64(d))) {
			name := s.text[:len(s.text)-len(`":`)]
			dst = append(append(dst, name...), `@odata.type":"Edm.Double"`...)
		}
		return v.appendTo(append(dst, s.text...))
	case DateTime:
		s.time.Set(ticks.Ticks(binary.BigEndian.Uint64(d)))
		return append(append(append(dst, s.text...), s.time.Plain()...), '"')
	}
	return append(appendText(append(dst, s.text...), s.typ, d), '"')
}
