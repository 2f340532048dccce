package main

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strings"
	"time"
)

// terms.csv holds the terms of office of Vermont's members of the United States Congress as of June 2026, from the
// public domain project unitedstates/congress-legislators.
//
//go:embed terms.csv
var termsCSV string

// term is one member's term of office.
type term struct {
	state, member, number, name, chamber string
	end                                  time.Time
}

// partitionKey groups terms by state.
func (t term) partitionKey() string { return t.state }

// rowKey orders a state's terms by member and number.
func (t term) rowKey() string { return t.member + "-" + t.number }

func loadTerms() ([]term, error) {
	rows, err := csv.NewReader(strings.NewReader(termsCSV)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("terms.csv: %w", err)
	}
	var terms []term
	for _, row := range rows[1:] { // The first row has the names of the columns.
		end, err := time.Parse(time.DateOnly, row[9])
		if err != nil {
			return nil, fmt.Errorf("terms.csv: %w", err)
		}
		terms = append(terms, term{state: row[0], member: row[1], number: row[2], name: row[3], chamber: row[4], end: end})
	}
	return terms, nil
}
