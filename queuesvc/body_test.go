package queuesvc

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

func TestParseMessage(t *testing.T) {
	t.Parallel()
	wrap := func(s string) string { return "<QueueMessage><MessageText>" + s + "</MessageText></QueueMessage>" }
	for _, tc := range []struct {
		name, body, text string
		err              error
	}{
		{"plain", wrap("hello"), "hello", nil},
		{"declared", `<?xml version="1.0" encoding="UTF-8"?>` + wrap("hello"), "hello", nil},
		{"declared in single quotes", "<?xml version='1.0' encoding='utf-8'?>\n" + wrap("hello"), "hello", nil},
		{"byte order mark", "\ufeff" + wrap("hello"), "hello", nil},
		{"white space around", " <QueueMessage>\n <MessageText> a </MessageText>\n</QueueMessage>\n", " a ", nil},
		{"empty", wrap(""), "", nil},
		{"empty element", "<QueueMessage><MessageText/></QueueMessage>", "", nil},
		{"references", wrap("&lt;a&gt;&amp;&#x41;&quot;"), "<a>&A\"", nil},
		{"CDATA", wrap("<![CDATA[<a>]]>b"), "<a>b", nil},
		{"comment", "<QueueMessage><!-- c --><MessageText>a<!-- c -->b</MessageText></QueueMessage>", "ab", nil},
		{"carriage return", wrap("a\r\nb\rc"), "a\nb\nc", nil},
		{"written carriage return", wrap("a&#xD;b"), "a\rb", nil},
		{"other characters", wrap("é啊\U0001F600"), "é啊\U0001F600", nil},
		{"64 KiB", wrap(strings.Repeat("a", maxMessage)), strings.Repeat("a", maxMessage), nil},
		{"over 64 KiB", wrap(strings.Repeat("a", maxMessage+1)), "", errMessageTooLarge},
		{"over 64 KiB, escaped", wrap(strings.Repeat("&lt;", maxMessage+1)), "", errMessageTooLarge},
		{"nothing", "", "", wire.ErrInvalidXMLDocument},
		{"no XML", "hello", "", wire.ErrInvalidXMLDocument},
		{"another document", "<Foo/>", "", wire.ErrInvalidXMLDocument},
		{"no text element", "<QueueMessage/>", "", wire.ErrInvalidXMLDocument},
		{"two texts", "<QueueMessage><MessageText>a</MessageText><MessageText>b</MessageText></QueueMessage>", "",
			wire.ErrInvalidXMLDocument},
		{"an unknown element", "<QueueMessage><MessageText>a</MessageText><More/></QueueMessage>", "",
			wire.ErrInvalidXMLDocument},
		{"markup in the text", wrap("<b>a</b>"), "", wire.ErrInvalidXMLDocument},
		{"text beside the element", "<QueueMessage>a<MessageText>b</MessageText></QueueMessage>", "",
			wire.ErrInvalidXMLDocument},
		{"two documents", wrap("a") + wrap("b"), "", wire.ErrInvalidXMLDocument},
		{"text after the document", wrap("a") + "b", "", wire.ErrInvalidXMLDocument},
		{"unclosed", "<QueueMessage><MessageText>a</MessageText>", "", wire.ErrInvalidXMLDocument},
		{"control character", wrap("a\x01"), "", wire.ErrInvalidXMLDocument},
		{"written control character", wrap("&#1;"), "", wire.ErrInvalidXMLDocument},
		{"no UTF-8", wrap("a\xff"), "", wire.ErrInvalidXMLDocument},
		{"another encoding", `<?xml version="1.0" encoding="latin1"?>` + wrap("a"), "", wire.ErrInvalidXMLDocument},
		{"entity", `<!DOCTYPE a [<!ENTITY b "c">]>` + wrap("&b;"), "", wire.ErrInvalidXMLDocument},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseMessage([]byte(tc.body), maxMessage)
			if string(got) != tc.text && tc.err == nil || (err == nil) != (tc.err == nil) || !errors.Is(err, tc.err) {
				t.Errorf("got %.60q, %v; want %.60q, %v", got, err, tc.text, tc.err)
			}
		})
	}
}

// FuzzParseMessage: whatever comes, the quick reader and the thorough one agree, and a text that is read can be sent.
func FuzzParseMessage(f *testing.F) {
	f.Add([]byte("<QueueMessage><MessageText>a&lt;b</MessageText></QueueMessage>"))
	f.Add([]byte("\ufeff<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<QueueMessage>\n<MessageText> é " +
		"</MessageText></QueueMessage>"))
	f.Add([]byte("<QueueMessage><MessageText/></QueueMessage><!-- -->"))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer workbudget.Default.Start(t, len(body))()
		text, err := parseMessage(body, maxMessage)
		if err != nil {
			var e *wire.Error
			if !errors.As(err, &e) {
				t.Fatalf("%v is no error for a client", err)
			}
			return
		}
		if !utf8.Valid(text) || len(text) > maxMessage {
			t.Fatalf("read %d bytes, valid: %v", len(text), utf8.Valid(text))
		}
		if quick, ok := plainMessage(body); ok {
			thorough, err := decodeMessage(body)
			if err != nil || !bytes.Equal(quick, thorough) {
				t.Fatalf("quick %q, thorough %q, %v", quick, thorough, err)
			}
		}
		again := wire.NewXML(0).Open("QueueMessage").Text("MessageText", string(text)).Close("QueueMessage").Bytes()
		if back, err := parseMessage(again, maxMessage); err != nil || !bytes.Equal(back, text) {
			t.Fatalf("%q is sent as %q, which is read as %q, %v", text, again, back, err)
		}
	})
}
