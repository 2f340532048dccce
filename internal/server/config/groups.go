package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Membership says in which groups a client of the development issuer is.
type Membership struct {
	Client string
	Groups []string // ids or names, at least one
}

// maxGroups bounds the groups of a client: more would not fit into a token.
const maxGroups = 100

// parseGroups reads "client:group,group;client:group".
func parseGroups(text string) ([]Membership, error) {
	var list []Membership
	for part := range strings.SplitSeq(strings.TrimSpace(text), ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		client, names, ok := strings.Cut(part, ":")
		m := Membership{Client: strings.TrimSpace(client)}
		for name := range strings.SplitSeq(names, ",") {
			m.Groups = append(m.Groups, strings.TrimSpace(name))
		}
		if !ok || m.Client == "" || slices.Contains(m.Groups, "") {
			return nil, fmt.Errorf("entry %d is not of the form client:group,group", len(list)+1)
		}
		if len(m.Groups) > maxGroups {
			return nil, fmt.Errorf("%s is in more than %d groups", m.Client, maxGroups)
		}
		// Two entries would leave open whether the second replaces or adds.
		if slices.ContainsFunc(list, func(o Membership) bool { return o.Client == m.Client }) {
			return nil, fmt.Errorf("%s is given twice", m.Client)
		}
		list = append(list, m)
	}
	if len(list) == 0 {
		return nil, errors.New("no client is given")
	}
	return list, nil
}

// formatGroups is the inverse of parseGroups.
func formatGroups(list []Membership) string {
	parts := make([]string, len(list))
	for i, m := range list {
		parts[i] = m.Client + ":" + strings.Join(m.Groups, ",")
	}
	return strings.Join(parts, ";")
}
