package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
)

// option is one row of the table: a thing that can be set.
type option struct {
	// name is the flag and the key in the file; with LAZULI_, upper case and underscores, it is the variable.
	name  string
	short string // one-letter flag, "" for none
	// kind is the word for the value in help texts; "" marks a switch, which needs no value.
	kind string
	// usage is one sentence without a full stop.
	usage string
	// noFlag keeps secrets off the command line, where other users of the machine see them.
	noFlag bool
	// rare keeps an option of a role out of the flags of serve; `lazuli worker` has it.
	rare bool
	set  func(*Config, string) error
	get  func(*Config) string
}

// env is the option's environment variable.
func (o *option) env() string {
	return "LAZULI_" + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

func text(name, short, kind, usage string, field func(*Config) *string, check func(string) error) option {
	return option{name: name, short: short, kind: kind, usage: usage,
		set: func(c *Config, s string) error { *field(c) = s; return check(s) },
		get: func(c *Config) string { return *field(c) }}
}

// secret takes a text that is no flag, since others see the arguments of a process, and that is not printed.
func secret(name, usage string, field func(*Config) *string, check func(string) error) option {
	return option{name: name, kind: "text", usage: usage, noFlag: true,
		set: func(c *Config, s string) error { *field(c) = s; return check(s) },
		get: func(c *Config) string {
			if *field(c) == "" {
				return ""
			}
			return redacted
		}}
}

// redacted stands for a secret in what is printed.
const redacted = "**redacted**"

// words takes a list, separated by commas.
func words(name, usage string, field func(*Config) *[]string, check func(string) error) option {
	return option{name: name, kind: "list", usage: usage,
		set: func(c *Config, s string) error {
			*field(c) = nil
			for word := range strings.SplitSeq(s, ",") {
				word = strings.TrimSpace(word)
				if err := check(word); err != nil {
					return err
				}
				if slices.Contains(*field(c), word) {
					return fmt.Errorf("%s is named twice", word)
				}
				*field(c) = append(*field(c), word)
			}
			return nil
		},
		get: func(c *Config) string { return strings.Join(*field(c), ",") }}
}

func boolean(name, short, usage string, field func(*Config) *bool) option {
	return option{name: name, short: short, usage: usage,
		set: func(c *Config, s string) (err error) {
			*field(c), err = accountprops.ParseBool(s)
			return err
		},
		get: func(c *Config) string { return strconv.FormatBool(*field(c)) }}
}

func number(name, usage string, low, high int, field func(*Config) *int) option {
	return option{name: name, kind: "number", usage: usage,
		set: func(c *Config, s string) (err error) {
			*field(c), err = accountprops.ParseNumber(s, low, high)
			return err
		},
		get: func(c *Config) string { return strconv.Itoa(*field(c)) }}
}

func port(name, usage string, field func(*Config) *int) option {
	o := number(name, usage, 0, 65535, field)
	o.kind = "port"
	return o
}

// duration takes Go's form ("1m30s") and, as Azurite does, plain seconds.
func duration(name, usage string, field func(*Config) *time.Duration) option {
	return option{name: name, kind: "time", usage: usage,
		set: func(c *Config, s string) error {
			text := s
			if _, err := strconv.ParseUint(s, 10, 31); err == nil {
				text += "s"
			}
			d, err := time.ParseDuration(text)
			if err != nil || d < 0 {
				return fmt.Errorf("%q is not a time such as 5s or 1m30s, nor a number of seconds", s)
			}
			*field(c) = d
			return nil
		},
		get: func(c *Config) string { return field(c).String() }}
}

func notEmpty(s string) error {
	if s == "" {
		return fmt.Errorf("the value is empty")
	}
	return nil
}

func oneOf(s string, words ...string) error {
	for _, w := range words {
		if s == w {
			return nil
		}
	}
	return fmt.Errorf("%q is not one of %s", s, strings.Join(words, ", "))
}

// host takes an IP address or a host name.
func host(s string) error {
	if s == "" || len(s) > 253 || strings.ContainsAny(s, " \t/@?#,") || strings.Contains(s, ":") && net.ParseIP(s) == nil {
		return fmt.Errorf("%q is not an IP address or a host name", s)
	}
	return nil
}

func hostPort(s string) error {
	h, p, err := net.SplitHostPort(s)
	if err == nil && h != "" {
		err = host(h)
	}
	if n, e := strconv.Atoi(p); err != nil || e != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q is not of the form host:port", s)
	}
	return nil
}
