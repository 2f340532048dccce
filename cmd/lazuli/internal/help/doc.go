// Package help writes the help of the command, in groups of verbs and of flags, and completes the tree of verbs with
// what all of them do alike: usage errors, suggestions, the output's form and the names that shells offer.
package help
