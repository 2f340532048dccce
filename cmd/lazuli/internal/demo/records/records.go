// Package records is the data set of the archive example: the terms of office of the members of the United States
// Congress that sat in June 2026, one row for each term since 1981. See README.md beside this file for source and
// licence.
package records

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"
)

//go:embed terms.csv.gz
var compressed []byte

// Term is one member's term of office.
type Term struct {
	State    string // two letters
	Member   string // the member's id in the Biographical Directory of the United States Congress
	Number   int    // 1 for the member's first term
	Name     string
	Chamber  string // house or senate
	District string // empty for senators
	Class    string // of senators; empty for others
	Party    string
	Start    time.Time
	End      time.Time
}

// PartitionKey groups the terms by state.
func (t Term) PartitionKey() string { return t.State }

// RowKey orders a state's terms by member, then time.
func (t Term) RowKey() string { return fmt.Sprintf("%s-%02d", t.Member, t.Number) }

// Over reports whether the term had ended by a day.
func (t Term) Over(day time.Time) bool { return !t.End.After(day) }

// Load returns all terms, ordered by partition and row key.
func Load() ([]Term, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	rows := csv.NewReader(unzipped)
	if _, err := rows.Read(); err != nil {
		return nil, fmt.Errorf("records: header: %w", err)
	}
	var terms []Term
	for {
		row, err := rows.Read()
		if err == io.EOF {
			return terms, nil
		}
		if err != nil {
			return nil, fmt.Errorf("records: %w", err)
		}
		t, err := parse(row)
		if err != nil {
			return nil, fmt.Errorf("records: row %d: %w", len(terms)+1, err)
		}
		terms = append(terms, t)
	}
}

func parse(row []string) (Term, error) {
	t := Term{State: row[0], Member: row[1], Name: row[3], Chamber: row[4], District: row[5], Class: row[6], Party: row[7]}
	var err error
	if t.Number, err = strconv.Atoi(row[2]); err != nil {
		return Term{}, err
	}
	if t.Start, err = time.Parse(time.DateOnly, row[8]); err != nil {
		return Term{}, err
	}
	t.End, err = time.Parse(time.DateOnly, row[9])
	return t, err
}
