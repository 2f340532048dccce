package properties

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Limits of a service's properties.
const (
	// MaxBody bounds the body of Set Service Properties, in bytes.
	MaxBody = 64 << 10
	// MaxRetentionDays bounds every retention policy.
	MaxRetentionDays = 365
)

// Properties are the settings of one account's service. The zero value has everything off.
type Properties struct {
	Logging         Logging   `json:"logging"`
	HourMetrics     Metrics   `json:"hourMetrics"`
	MinuteMetrics   Metrics   `json:"minuteMetrics"`
	CORS            []Rule    `json:"cors,omitempty"`
	DeleteRetention Retention `json:"deleteRetention"`
	StaticWebsite   Website   `json:"staticWebsite"`
	// DefaultVersion is the version of requests without x-ms-version, "" if it was never set.
	DefaultVersion string `json:"defaultVersion,omitempty"`
}

// Logging are the settings of the Storage Analytics log.
type Logging struct {
	Version             string
	Read, Write, Delete bool
	Retention           Retention
}

// Metrics are the settings of the hour or minute metrics.
type Metrics struct {
	Version              string
	Enabled, IncludeAPIs bool
	Retention            Retention
}

// Retention is a number of days, 1 to [MaxRetentionDays], after which something is removed. Only soft delete of the
// Blob service has AllowPermanentDelete.
type Retention struct {
	Enabled, AllowPermanentDelete bool
	Days                          int
}

// Website are the settings of the static website.
type Website struct {
	Enabled                                                   bool
	IndexDocument, ErrorDocument404Path, DefaultIndexDocument string
}

// Features are the settings that a service implements. A request that turns on another is refused; it is never stored
// and ignored.
type Features struct {
	Logging, Metrics, DeleteRetention, StaticWebsite bool
}

// document is the XML of Set Service Properties. An absent section does not change. Flags are text, since clients write
// True as well as true.
type document struct {
	XMLName xml.Name `xml:"StorageServiceProperties"`
	Logging *struct {
		Version, Read, Write, Delete string
		RetentionPolicy              retention
	}
	HourMetrics, MinuteMetrics *metrics
	Metrics                    *metrics // the hour metrics, before 2013-08-15
	Cors                       *struct {
		CorsRule []corsRule
	}
	DeleteRetentionPolicy *retention
	StaticWebsite         *struct {
		Enabled, IndexDocument, ErrorDocument404Path, DefaultIndexDocumentPath string
	}
	DefaultServiceVersion *string
}

type metrics struct {
	Version, Enabled, IncludeAPIs string
	RetentionPolicy               retention
}

type retention struct{ Enabled, Days, AllowPermanentDelete string }

// Update returns p with the sections that body, a Set Service Properties document, has. It fails with
// [wire.ErrInvalidXMLDocument], and with [wire.ErrNotImplemented] for settings that the service does not implement; p
// is unchanged.
func (p Properties) Update(svc wire.Service, body []byte, can Features) (Properties, error) {
	var d document
	if err := wire.ParseXML(body, &d); err != nil {
		return p, err
	}
	read := reader{body: body}
	// Azure refuses a document without sections, with these words; clients compare the code alone, and people read them.
	if at, empty := emptyRoot(body); empty {
		return p, wire.ErrInvalidXMLDocument.With("LineNumber", strconv.Itoa(at.line)).With("LinePosition",
			strconv.Itoa(at.column)).
			With("Reason", fmt.Sprintf("Error parsing Xml content: 'None' is an invalid XmlNodeType. Line %d, position %d.",
				at.line, at.column))
	}
	// A section that the document leaves out keeps its value: that is the operation's contract. So p is changed section
	// by section.
	if s := d.Logging; s != nil {
		p.Logging = Logging{Version: s.Version, Read: read.flag(s.Read), Write: read.flag(s.Write),
			Delete: read.flag(s.Delete), Retention: read.retention(s.RetentionPolicy, "Logging", "RetentionPolicy")}
		if l := p.Logging; !can.Logging && (l.Read || l.Write || l.Delete) {
			read.refuse("Logging")
		}
	}
	for _, m := range []struct {
		name string
		from *metrics
		to   *Metrics
		// Metrics is the name before version 2013-08-15, and means those of hours.
	}{{"Metrics", d.Metrics, &p.HourMetrics}, {"HourMetrics", d.HourMetrics, &p.HourMetrics},
		{"MinuteMetrics", d.MinuteMetrics, &p.MinuteMetrics}} {
		if m.from == nil {
			continue
		}
		*m.to = Metrics{m.from.Version, read.flag(m.from.Enabled), read.flag(m.from.IncludeAPIs),
			read.retention(m.from.RetentionPolicy, m.name, "RetentionPolicy")}
		if m.to.Enabled && !can.Metrics {
			read.refuse(m.name)
		}
	}
	if d.Cors != nil {
		p.CORS = read.rules(d.Cors.CorsRule)
	}
	if svc == wire.Blob {
		read.blob(&p, &d, can)
		// Settings of blobs, on another service.
	} else if d.DeleteRetentionPolicy != nil || d.StaticWebsite != nil || d.DefaultServiceVersion != nil {
		read.fail("")
	}
	return p, read.err
}

// emptyRoot reports whether a document is one empty tag, which Azure's parser refuses, unlike a start and an end tag
// (recorded for the Queue service; the services share the format). at is its end.
func emptyRoot(document []byte) (at struct{ line, column int }, empty bool) {
	document = bytes.TrimRight(document, " \t\r\n")
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(document, []byte("\ufeff"))))
	d.CharsetReader = wire.XMLCharset
	for {
		token, err := d.Token()
		if err != nil {
			return at, false
		}
		if _, ok := token.(xml.StartElement); ok {
			at.line, at.column = d.InputPos()
			return at, bytes.HasSuffix(document, []byte("/>")) &&
				d.InputOffset() == int64(len(bytes.TrimPrefix(document, []byte("\ufeff"))))
		}
	}
}

// blob parses the sections that only the Blob service has.
func (read *reader) blob(p *Properties, d *document, can Features) {
	if d.DeleteRetentionPolicy != nil {
		if d.DeleteRetentionPolicy.Enabled == "" {
			read.failAt([]string{"DeleteRetentionPolicy"}, "Element is missing: Enabled.")
		}
		p.DeleteRetention = read.retention(*d.DeleteRetentionPolicy, "DeleteRetentionPolicy")
		if p.DeleteRetention.Enabled && !can.DeleteRetention {
			read.refuse("DeleteRetentionPolicy")
		}
	}
	if s := d.StaticWebsite; s != nil {
		p.StaticWebsite = Website{read.flag(s.Enabled), s.IndexDocument, s.ErrorDocument404Path, s.DefaultIndexDocumentPath}
		if p.StaticWebsite.Enabled && !can.StaticWebsite {
			read.refuse("StaticWebsite")
		}
	}
	if v := d.DefaultServiceVersion; v != nil {
		if _, ok := wire.ParseVersion(*v); !ok && *v != "" {
			read.fail("The default service version is not a version.")
		}
		p.DefaultVersion = *v
	}
}

// reader converts text and keeps the first failure.
type reader struct {
	body []byte // the document
	err  error
}

func (read *reader) fail(reason string) { read.failAt(nil, reason) }

// failAt is fail for the element at a path of names below the root. The error names the place behind the element, as
// recorded; 0 and 0 for no element.
func (read *reader) failAt(path []string, reason string) {
	if read.err == nil {
		line, position := behind(read.body, path)
		read.err = wire.ErrInvalidXMLDocument.With("LineNumber", strconv.Itoa(line)).With("LinePosition",
			strconv.Itoa(position)).With("Reason", reason)
	}
}

// behind returns where the name of the tag behind an element of a document is, from 1 as Azure's parser counts; 0 and 0
// if the document has no such element.
func behind(document []byte, path []string) (line, position int) {
	if len(path) == 0 {
		return 0, 0
	}
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(document, []byte("\ufeff"))))
	d.CharsetReader = wire.XMLCharset
	var open []string
	found := false
	for {
		line, column := d.InputPos()
		token, err := d.Token()
		if err != nil {
			return 0, 0
		}
		switch t := token.(type) {
		case xml.StartElement:
			if found {
				return line, column + 1
			}
			open = append(open, t.Name.Local)
		case xml.EndElement:
			if found {
				return line, column + 2
			}
			found = slices.Equal(open[1:], path)
			open = open[:len(open)-1]
		}
	}
}

func (read *reader) refuse(setting string) {
	if read.err == nil {
		read.err = wire.ErrNotImplemented.WithMessage("The service property " + setting +
			" is not implemented and cannot be turned on.")
	}
}

func (read *reader) flag(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "1":
		return true
	case "false", "0", "":
		return false
	}
	read.fail("A flag must be true or false.")
	return false
}

// retention parses the policy at a path of names below the root.
func (read *reader) retention(r retention, path ...string) Retention {
	out := Retention{Enabled: read.flag(r.Enabled), AllowPermanentDelete: read.flag(r.AllowPermanentDelete)}
	if !out.Enabled {
		return out
	}
	var err error
	if out.Days, err = strconv.Atoi(strings.TrimSpace(r.Days)); err != nil || out.Days < 1 || out.Days > MaxRetentionDays {
		read.failAt(append(path, "Days"), "Retention days must be greater than 0 and less than or equal to 365 days.")
	}
	return out
}

// XML returns the answer of Get Service Properties.
func (p Properties) XML(svc wire.Service, v wire.Version) *wire.XML {
	x := wire.NewXML(1024).Open("StorageServiceProperties")
	x.Open("Logging").Text("Version", orDefault(p.Logging.Version, "1.0")).Bool("Read", p.Logging.Read).
		Bool("Write", p.Logging.Write).Bool("Delete", p.Logging.Delete)
	p.Logging.Retention.xml(x, "RetentionPolicy")
	x.Close("Logging")
	if v == 0 || v >= wire.V20130815 {
		p.HourMetrics.xml(x, "HourMetrics")
		p.MinuteMetrics.xml(x, "MinuteMetrics")
		corsXML(x, p.CORS)
	} else {
		p.HourMetrics.xml(x, "Metrics")
	}
	if svc == wire.Blob {
		if v >= 20170729 {
			p.DeleteRetention.xml(x, "DeleteRetentionPolicy")
		}
		if v >= 20180328 {
			x.Open("StaticWebsite").Bool("Enabled", p.StaticWebsite.Enabled)
			if w := p.StaticWebsite; w.Enabled {
				for _, e := range [][2]string{{"IndexDocument", w.IndexDocument},
					{"DefaultIndexDocumentPath", w.DefaultIndexDocument},
					{"ErrorDocument404Path", w.ErrorDocument404Path}} {
					if e[1] != "" {
						x.Text(e[0], e[1])
					}
				}
			}
			x.Close("StaticWebsite")
		}
		if p.DefaultVersion != "" {
			x.Text("DefaultServiceVersion", p.DefaultVersion)
		}
	}
	return x.Close("StorageServiceProperties")
}

func (m Metrics) xml(x *wire.XML, name string) {
	x.Open(name).Text("Version", orDefault(m.Version, "1.0")).Bool("Enabled", m.Enabled)
	if m.Enabled {
		x.Bool("IncludeAPIs", m.IncludeAPIs)
	}
	m.Retention.xml(x, "RetentionPolicy")
	x.Close(name)
}

func (r Retention) xml(x *wire.XML, name string) {
	x.Open(name).Bool("Enabled", r.Enabled)
	if r.Enabled {
		x.Int("Days", int64(r.Days))
		if r.AllowPermanentDelete {
			x.Bool("AllowPermanentDelete", true)
		}
	}
	x.Close(name)
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
