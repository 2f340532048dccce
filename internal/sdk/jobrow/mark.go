package jobrow

import "strings"

// Prefix begins the texts of messages that are jobs. It is not base64, so that a receiver which does not know of jobs
// fails instead of handling a body with it.
const Prefix = "lazuli-job/1 "

const again = " again"

// Mark is what the text of a message says of its job, in its first line.
type Mark struct {
	ID, Token string
	// Again is true in a poison queue: put back, the message starts the job again although that has ended.
	Again bool
}

// Text returns the text of the job's message with the given body, encoded.
func (m Mark) Text(body string) string {
	text := Prefix + m.ID + " " + m.Token
	if m.Again {
		text += again
	}
	return text + "\n" + body
}

// ParseMark returns the mark and the rest of a message's text; ok is false for a message that is no job.
func ParseMark(text string) (m Mark, body string, ok bool) {
	if !strings.HasPrefix(text, Prefix) {
		return m, text, false
	}
	line, body, ok := strings.Cut(text[len(Prefix):], "\n")
	line, m.Again = strings.CutSuffix(line, again)
	m.ID, m.Token, _ = strings.Cut(line, " ")
	if _, _, valid := SplitID(m.ID); !ok || !valid || m.Token == "" || strings.ContainsAny(m.Token, " \r") {
		return Mark{}, text, false
	}
	return m, body, true
}
