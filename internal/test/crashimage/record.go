package crashimage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Available returns nil if programs can be recorded on this machine, and otherwise the reason.
func Available() error {
	path, err := exec.LookPath("strace")
	if err != nil {
		return errors.New("strace is not installed")
	}
	if out, err := exec.Command(path, "-f", "-e", "trace=fsync", "true").CombinedOutput(); err != nil {
		return fmt.Errorf("strace cannot trace here: %s", bytes.TrimSpace(out))
	}
	return nil
}

// Kind is the kind of an [Event].
type Kind uint8

// The kinds of events.
const (
	Write    Kind = iota // Data at Offset of Path
	Truncate             // Path to the size Offset
	Create               // Path, a new or truncated file
	Mkdir                // Path
	Sync                 // Path, a file or a folder
	Rename               // Path to To
	Link                 // To is another name of Path
	Remove               // Path
	Print                // Data to the standard output
)

func (k Kind) String() string {
	return [...]string{"write", "truncate", "create", "mkdir", "sync", "rename", "link", "remove", "print"}[k]
}

// Event is one successful operation. Paths are relative to the folder.
type Event struct {
	Kind     Kind
	Path, To string
	Offset   int64
	Data     []byte
	begun    int // number of events that had ended when a sync began
}

func (e Event) String() string {
	return fmt.Sprintf("%v %s %s %d+%d", e.Kind, e.Path, e.To, e.Offset, len(e.Data))
}

// Recording has the operations of a run, in the order in which they ended.
type Recording struct{ Events []Event }

const traced = "trace=openat,open,creat,close,write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,rmdir,ftruncate,truncate,mkdir,mkdirat,lseek,copy_file_range,sendfile,fallocate,link,linkat"

// uncopied refuses calls by which the system copies content: the trace would not have it. Go reads and writes instead.
const uncopied = "inject=copy_file_range:error=ENOSYS"

// Record runs a command to its end and returns its operations below dir, which must exist and be empty, and its output.
func Record(dir, trace string, cmd *exec.Cmd) (*Recording, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		return nil, err
	}
	cmd.Args = append([]string{strace, "-f", "-y", "-xx", "-a1", "-s", "16777216", "--seccomp-bpf", "-o", trace, "-e",
		traced, "-e", uncopied, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = strace
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, printed.Bytes())
	}
	f, err := os.Open(trace)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := parser{dir: dir, begun: make(map[string]pendingCall), offsets: make(map[string]int64)}
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if line == "" && err != nil {
			break
		}
		if err := p.line(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, fmt.Errorf("%w: %.200s", err, line)
		}
	}
	return &Recording{p.events}, nil
}

// parser parses a trace.
type parser struct {
	dir     string
	events  []Event
	begun   map[string]pendingCall // by thread
	offsets map[string]int64       // by file descriptor
}

// pendingCall is a call that has begun and not ended.
type pendingCall struct {
	text  string
	begun int
}

func (p *parser) line(line string) error {
	thread, rest, ok := strings.Cut(line, " ")
	if !ok {
		return nil
	}
	rest = strings.TrimLeft(rest, " ")
	if text, ok := strings.CutSuffix(rest, " <unfinished ...>"); ok {
		p.begun[thread] = pendingCall{text, len(p.events)}
		return nil
	}
	begun := len(p.events)
	if strings.HasPrefix(rest, "<... ") {
		_, after, ok := strings.Cut(rest, " resumed>")
		if !ok {
			return errors.New("cannot parse a resumed call")
		}
		rest, begun = p.begun[thread].text+after, p.begun[thread].begun
	}
	end := strings.LastIndex(rest, ") = ")
	name, args, ok := strings.Cut(rest, "(")
	if end < 0 || !ok {
		return nil // a signal, an exit
	}
	result := rest[end+len(") = "):]
	if strings.HasPrefix(result, "-1") || strings.HasPrefix(result, "?") {
		return nil
	}
	return p.call(name, arguments(args[:len(args)-len(rest[end:])]), result, begun)
}

// arguments splits arguments at commas outside of strings and file names. File names are in hexadecimal and have no
// commas.
func arguments(s string) []string {
	list := strings.Split(s, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// text decodes "\x61\x62".
func text(s string) []byte {
	s = strings.Trim(s, `"`)
	out := make([]byte, 0, len(s)/4)
	for len(s) >= 4 && s[0] == '\\' && s[1] == 'x' {
		n, err := strconv.ParseUint(s[2:4], 16, 8)
		if err != nil {
			return out
		}
		out, s = append(out, byte(n)), s[4:]
	}
	return out
}

// descriptor parses 7<\x2f...>.
func descriptor(s string) (number, path string) {
	number, rest, _ := strings.Cut(s, "<")
	name, _, _ := strings.Cut(rest, ">")
	return number, string(text(name))
}

// below returns a path relative to the folder, and reports whether it is below the folder.
func (p *parser) below(path string) (string, bool) {
	if path == p.dir {
		return ".", true
	}
	return strings.CutPrefix(path, p.dir+"/")
}

// at joins the path of a folder's descriptor and a name.
func at(folder, name string) string {
	n := string(text(name))
	if filepath.IsAbs(n) {
		return filepath.Clean(n)
	}
	_, dir := descriptor(folder)
	return filepath.Join(dir, n)
}

func (p *parser) add(e Event) { p.events = append(p.events, e) }

func (p *parser) call(name string, args []string, result string, begun int) error {
	switch name {
	case "openat", "open", "creat":
		return p.open(name, args, result)
	case "mkdirat", "mkdir":
		path := string(text(args[0]))
		// The variants with "at" have a folder before the path.
		if name == "mkdirat" {
			path = at(args[0], args[1])
		}
		if rel, ok := p.below(path); ok {
			p.add(Event{Kind: Mkdir, Path: rel})
		}
	case "unlinkat", "unlink", "rmdir":
		path := string(text(args[0]))
		if name == "unlinkat" {
			path = at(args[0], args[1])
		}
		if rel, ok := p.below(path); ok {
			p.add(Event{Kind: Remove, Path: rel})
		}
	case "renameat", "renameat2", "rename":
		from, to := string(text(args[0])), ""
		if name == "rename" {
			to = string(text(args[1]))
		} else {
			from, to = at(args[0], args[1]), at(args[2], args[3])
		}
		if rel, ok := p.below(from); ok {
			relTo, inside := p.below(to)
			// The model has one folder: a file that leaves it would be lost for the images.
			if !inside {
				return errors.New("a file is moved out of the folder")
			}
			p.add(Event{Kind: Rename, Path: rel, To: relTo})
		}
	case "linkat", "link":
		from, to := string(text(args[0])), ""
		if name == "link" {
			to = string(text(args[1]))
		} else {
			from, to = at(args[0], args[1]), at(args[2], args[3])
		}
		rel, ok := p.below(from)
		if relTo, inside := p.below(to); ok && inside {
			p.add(Event{Kind: Link, Path: rel, To: relTo})
		}
	case "fsync", "fdatasync":
		if _, path := descriptor(args[0]); path != "" {
			// Syncs outside of the folder, such as those of the log, are not of the model.
			if rel, ok := p.below(path); ok {
				p.add(Event{Kind: Sync, Path: rel, begun: begun})
			}
		}
	default:
		return p.content(name, args, result)
	}
	return nil
}

// open records a file that is created or truncated.
func (p *parser) open(name string, args []string, result string) error {
	number, path := descriptor(result)
	p.offsets[number] = 0
	rel, ok := p.below(path)
	flags := strings.Join(args, ",")
	if !ok || name != "creat" && !strings.Contains(flags, "O_CREAT") && !strings.Contains(flags, "O_TRUNC") {
		return nil
	}
	if strings.Contains(flags, "O_TRUNC") || strings.Contains(flags, "O_EXCL") || name == "creat" {
		p.add(Event{Kind: Truncate, Path: rel})
		return nil
	}
	p.add(Event{Kind: Create, Path: rel})
	return nil
}

// content records a change of a file's content.
func (p *parser) content(name string, args []string, result string) error {
	number, path := descriptor(args[0])
	rel, ok := p.below(strings.TrimSuffix(path, " (deleted)"))
	done, _ := strconv.ParseInt(strings.Fields(result)[0], 10, 64)
	switch {
	case name == "write" && number == "1":
		p.add(Event{Kind: Print, Data: text(args[1])[:done]})
	case !ok:
	case name == "lseek":
		p.offsets[number] = done
	case name == "write":
		p.add(Event{Kind: Write, Path: rel, Offset: p.offsets[number], Data: text(args[1])[:done]})
		p.offsets[number] += done
	case name == "pwrite64":
		offset, err := strconv.ParseInt(args[3], 10, 64)
		if err != nil {
			return err
		}
		p.add(Event{Kind: Write, Path: rel, Offset: offset, Data: text(args[1])[:done]})
	case name == "ftruncate":
		size, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return err
		}
		p.add(Event{Kind: Truncate, Path: rel, Offset: size})
	case name == "close":
	case name == "fallocate" && filepath.Base(rel) == "RESERVE": // its content does not matter
	default:
		return fmt.Errorf("%s is not understood", name)
	}
	return nil
}
