package seed

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/server/events"
)

// Limits of a seed file.
const (
	maxFile = 64 << 20 // bytes
	// maxMessage is the longest message in bytes: https://learn.microsoft.com/azure/storage/queues/scalability-targets
	maxMessage = 64 << 10
)

// Seed is the content of a seed file, by account.
type Seed struct {
	accounts map[string]content
	// Faults are the fault rules of the file, for the whole server.
	Faults []faultrule.Rule
	// Events are the event subscriptions of the file.
	Events []events.Subscription
}

// content is the content of one account.
type content struct {
	Tables     map[string][]map[string]any `yaml:"tables"`
	Queues     map[string]queue            `yaml:"queues"`
	Containers map[string]box              `yaml:"containers"`
}

func (c *content) empty() bool { return len(c.Tables)+len(c.Queues)+len(c.Containers) == 0 }

// queue is a queue; its messages alone may stand for it.
type queue struct {
	Metadata map[string]string `yaml:"metadata"`
	Messages []message         `yaml:"messages"`
}

// UnmarshalYAML takes a list as the messages.
func (q *queue) UnmarshalYAML(decode func(any) error) error {
	if decode(&q.Messages) == nil {
		return nil
	}
	type plain queue
	return decode((*plain)(q))
}

// message is a message; its text alone may stand for it.
type message struct {
	Text              string `yaml:"text"`
	Base64            bool   `yaml:"base64"` // encode the text
	VisibilityTimeout string `yaml:"visibilityTimeout"`
	TimeToLive        string `yaml:"timeToLive"`

	visibility, ttl time.Duration
}

// UnmarshalYAML takes a text as the message.
func (m *message) UnmarshalYAML(decode func(any) error) error {
	if decode(&m.Text) == nil {
		return nil
	}
	type plain message
	return decode((*plain)(m))
}

// check reads what the file writes as text.
func (m *message) check() (err error) {
	if m.VisibilityTimeout != "" {
		if m.visibility, err = time.ParseDuration(m.VisibilityTimeout); err != nil || m.visibility < 0 ||
			m.visibility > 7*24*time.Hour {
			return fmt.Errorf("visibilityTimeout %q is not a time from 0s to 168h", m.VisibilityTimeout)
		}
	}
	if m.TimeToLive != "" {
		if m.ttl, err = time.ParseDuration(m.TimeToLive); err != nil || m.ttl < time.Second {
			return fmt.Errorf("timeToLive %q is not a time of a second or more", m.TimeToLive)
		}
	}
	if m.Base64 {
		m.Text = base64.StdEncoding.EncodeToString([]byte(m.Text))
	}
	if len(m.Text) > maxMessage {
		return fmt.Errorf("the text has %d bytes; at most %d are allowed", len(m.Text), maxMessage)
	}
	return nil
}

// box is a container.
type box struct {
	Metadata     map[string]string   `yaml:"metadata"`
	PublicAccess string              `yaml:"publicAccess"` // "", "blob" or "container"
	Blobs        map[string]seedBlob `yaml:"blobs"`
	// Directories are those of a container in an account with a hierarchical namespace, by path; "/" is the root.
	Directories map[string]access `yaml:"directories"`
}

// access is who may use a file or directory; what is "" is as the server gives it to new ones.
type access struct {
	Owner       string `yaml:"owner"`
	Group       string `yaml:"group"`
	Permissions string `yaml:"permissions"`
	ACL         string `yaml:"acl"`
}

func (a *access) check() error {
	if a.Permissions != "" && a.ACL != "" {
		return errors.New("only one of permissions and acl can be given")
	}
	return nil
}

// seedBlob is a block blob; its text alone may stand for it. Of Text, Base64 and File one is given.
type seedBlob struct {
	Text        *string           `yaml:"text"`
	Base64      *string           `yaml:"base64"`
	File        string            `yaml:"file"` // relative to the seed file
	ContentType string            `yaml:"contentType"`
	Metadata    map[string]string `yaml:"metadata"`
	Tags        map[string]string `yaml:"tags"`
	Access      access            `yaml:"access"` // in an account with a hierarchical namespace

	content []byte // of Text and Base64
}

// UnmarshalYAML takes a text as the blob's content.
func (b *seedBlob) UnmarshalYAML(decode func(any) error) error {
	var text string
	if decode(&text) == nil {
		b.Text = &text
		return nil
	}
	type plain seedBlob
	return decode((*plain)(b))
}

func (b *seedBlob) check() (err error) {
	given := 0
	for _, is := range []bool{b.Text != nil, b.Base64 != nil, b.File != ""} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return errors.New("only one of text, base64 and file can be given")
	case b.Base64 != nil:
		if b.content, err = base64.StdEncoding.DecodeString(*b.Base64); err != nil {
			return errors.New("base64 is not valid")
		}
	case b.Text != nil:
		b.content = []byte(*b.Text)
	}
	return b.Access.check()
}

// Load reads a seed file, YAML or JSON. Its errors name the place in the file. fallback is the account of what stands
// outside of accounts.
func Load(path, fallback string) (*Seed, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("seed: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("seed: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("seed %s has more than %d MiB; put large content into separate files", path, maxFile>>20)
	}
	s, err := parse(text, fallback)
	if err != nil {
		return nil, fmt.Errorf("seed %s: %w", path, err)
	}
	// Missing files are found now: a server that finds them while it applies the seed has applied a part of it.
	dir := filepath.Dir(path)
	for _, c := range s.accounts {
		for _, b := range c.Containers {
			for name, blob := range b.Blobs {
				if blob.File == "" {
					continue
				}
				if !filepath.IsAbs(blob.File) {
					blob.File = filepath.Join(dir, blob.File)
				}
				if info, err := os.Stat(blob.File); err != nil || !info.Mode().IsRegular() {
					return nil, fmt.Errorf("seed %s: blob %s: the file %s does not exist", path, name, blob.File)
				}
				b.Blobs[name] = blob
			}
		}
	}
	return s, nil
}

func parse(text []byte, fallback string) (*Seed, error) {
	var doc struct {
		Content  content            `yaml:",inline"`
		Accounts map[string]content `yaml:"accounts"`
		Faults   []map[string]any   `yaml:"faults"`
		Events   []map[string]any   `yaml:"events"`
	}
	// An empty file is an empty seed.
	if err := config.UnmarshalYAML(text, &doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	s := &Seed{accounts: doc.Accounts}
	if !doc.Content.empty() {
		// Content outside of accounts is that of the default account; with both, neither order would be the obvious one.
		if _, twice := s.accounts[fallback]; twice {
			return nil, fmt.Errorf("account %s is given twice: below accounts, and outside", fallback)
		}
		if s.accounts == nil {
			s.accounts = make(map[string]content)
		}
		s.accounts[fallback] = doc.Content
	}
	for name, c := range s.accounts {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("account %s, %w", name, err)
		}
	}
	for i, members := range doc.Faults {
		// Rules and subscriptions are read by the code of the admin API, so that the file takes exactly what the API takes,
		// with its errors.
		text, err := json.Marshal(members)
		if err != nil {
			return nil, fmt.Errorf("fault rule %d: %w", i+1, err)
		}
		rule, err := faultrule.Decode(text)
		if err != nil {
			return nil, fmt.Errorf("fault rule %d: %w", i+1, err)
		}
		s.Faults = append(s.Faults, rule)
	}
	for i, members := range doc.Events {
		if members["account"] == nil {
			members["account"] = fallback
		}
		text, err := json.Marshal(members)
		if err != nil {
			return nil, fmt.Errorf("event subscription %d: %w", i+1, err)
		}
		sub, err := events.Decode(text)
		if err != nil {
			return nil, fmt.Errorf("event subscription %d: %w", i+1, err)
		}
		s.Events = append(s.Events, sub)
	}
	return s, nil
}

func (c *content) check() error {
	for name, entities := range c.Tables {
		for i, e := range entities {
			if _, err := encodeEntity(e); err != nil {
				return fmt.Errorf("table %s, entity %d: %w", name, i+1, err)
			}
		}
	}
	for name, q := range c.Queues {
		for i := range q.Messages {
			if err := q.Messages[i].check(); err != nil {
				return fmt.Errorf("queue %s, message %d: %w", name, i+1, err)
			}
		}
	}
	for name, b := range c.Containers {
		if !slices.Contains([]string{"", "blob", "container"}, b.PublicAccess) {
			return fmt.Errorf("container %s: publicAccess %q is not blob or container", name, b.PublicAccess)
		}
		for path, blob := range b.Blobs {
			if err := blob.check(); err != nil {
				return fmt.Errorf("container %s, blob %s: %w", name, path, err)
			}
			b.Blobs[path] = blob
		}
		for path, a := range b.Directories {
			if err := a.check(); err != nil {
				return fmt.Errorf("container %s, directory %s: %w", name, path, err)
			}
		}
	}
	return nil
}

// Accounts are the names of the accounts that the seed fills.
func (s *Seed) Accounts() []string {
	names := make([]string, 0, len(s.accounts))
	for name := range s.accounts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
