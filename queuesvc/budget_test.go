package queuesvc

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// Messages that repeat a piece of their grammar take work that grows with their length.
func TestMessagesStayInTheirBudget(t *testing.T) {
	t.Parallel()
	const begin, end = "<QueueMessage><MessageText>", "</MessageText></QueueMessage>"
	workbudget.Inputs(512<<10, begin,
		[]string{"x", "&lt;", "&#10;", "<", "\r", "<!-- -->", "<![CDATA[x]]>", "<a>", begin, "\uFFFE", "</MessageText>"}, end,
		func(body string) {
			workbudget.Default.Check(t, len(body), func() { _, _ = parseMessage([]byte(body), maxMessage) })
		})
	workbudget.Inputs(512<<10, "", []string{" ", "<?xml version=\"1.0\"?>", "<QueueMessage>", "<a b='c'>"}, begin+end,
		func(body string) {
			workbudget.Default.Check(t, len(body), func() { _, _ = parseMessage([]byte(body), maxMessage) })
		})
}
