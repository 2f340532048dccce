// Package senate is the data of the examples: the terms in the Senate of the members of the United States Congress that
// sat in June 2026, from the public domain project unitedstates/congress-legislators (CC0 1.0), commit
// dfa9622263dd4c8d08636926e498f1845704d7eb, file legislators-current.yaml.
package senate

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"
)

//go:embed senate.csv
var table string

// Term is one term of a senator.
type Term struct {
	State  string // two letters
	Member string // the id in the Biographical Directory of the United States Congress
	Number int32  // 1 for the member's first term in Congress
	Name   string
	Class  string // 1, 2 or 3: when the seat is up for election
	Party  string
	Start  time.Time
	End    time.Time
}

// Terms returns all terms, ordered by state, member and time.
func Terms() ([]Term, error) {
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("senate: %w", err)
	}
	var terms []Term
	for _, row := range rows[1:] {
		t := Term{State: row[0], Member: row[1], Name: row[3], Class: row[4], Party: row[5]}
		number, err := strconv.ParseInt(row[2], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("senate: %w", err)
		}
		t.Number = int32(number)
		if t.Start, err = time.Parse(time.DateOnly, row[6]); err != nil {
			return nil, fmt.Errorf("senate: %w", err)
		}
		if t.End, err = time.Parse(time.DateOnly, row[7]); err != nil {
			return nil, fmt.Errorf("senate: %w", err)
		}
		terms = append(terms, t)
	}
	return terms, nil
}

// Senators returns the last term of each senator, ordered by state and member.
func Senators() ([]Term, error) {
	terms, err := Terms()
	var last []Term
	for i, t := range terms {
		if i+1 == len(terms) || terms[i+1].Member != t.Member {
			last = append(last, t)
		}
	}
	return last, err
}
