package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lesson"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/story"
	"github.com/lazuli-storage/lazuli/internal/killrig"
)

// classroom are the flags by which a demonstration teaches.
type classroom struct {
	cmd      *cobra.Command
	mistakes []*rig.Mistake
	// naive is empty, allMistakes or the name of a mistake.
	naive string
	step  bool
	// page is the file for the drawing of a story.
	page string

	config *rig.Config
	// ownServer is set if the verb has started a server: dashboard is its address.
	ownServer bool
	dashboard string
	kept      []string
}

// allMistakes is the value of --naive without one.
const allMistakes = "all"

// classroomFlags adds the flags to a demonstration that has the mistakes.
func classroomFlags(cmd *cobra.Command, c *rig.Config, mistakes []*rig.Mistake) *classroom {
	k := &classroom{cmd: cmd, mistakes: mistakes, config: c}
	fl := cmd.Flags()
	if len(mistakes) > 0 {
		names := []string{allMistakes}
		about := "\n\nWith --naive, workers first do the work without the pattern, and the damage is shown:\n"
		for _, m := range mistakes {
			names = append(names, m.Name)
			about += "\n  " + m.Name + ": " + m.Does
		}
		cmd.Long += about
		fl.StringVar(&k.naive, "naive", "", "first run implementations without the pattern, and show the damage: "+
			"all, or one by name")
		fl.Lookup("naive").NoOptDefVal = allMistakes
		console.OfferValues(cmd, "naive", names...)
	}
	fl.BoolVar(&c.Keep, "keep", false,
		"keep the created resources, and without a connection string the server, until Ctrl+C")
	fl.BoolVar(&k.step, "step", false, "wait for Enter before each step; needs a terminal")
	return k
}

// storyFlags adds the flags of stories.
func (k *classroom) storyFlags() *classroom {
	fl := k.cmd.Flags()
	fl.IntVar(&k.config.Story, "story", 0,
		"follow item `N` alone, counted from 1, and print what happens to it, request by request")
	fl.StringVar(&k.page, "page", "",
		"write the story as a page with a drawing to this `file`, .html or .svg; needs --story")
	return k
}

// checkStory is the part of check for stories.
func (k *classroom) checkStory(nodes bool) error {
	changed := k.cmd.Flags().Changed
	switch ext := filepath.Ext(k.page); {
	case changed("story") && k.config.Story < 1:
		return console.Usagef("--story %d: items are counted from 1", k.config.Story)
	case k.config.Story > 0 && (k.config.Pairs || nodes):
		return console.Usagef("--story follows one item through one kill: it cannot be used with --pairs or --kill-nodes")
	case !changed("page"):
		return nil
	case k.config.Story == 0:
		return console.Usagef("--page draws a story: it needs --story")
	case ext != ".html" && ext != ".svg":
		return console.Usagef("--page %s: the name must end with .html or .svg", k.page)
	case ext == ".svg" && k.naive != "":
		return console.Usagef("--page %s: with --naive there are several drawings, which only .html can have", k.page)
	}
	if info, err := os.Stat(filepath.Dir(k.page)); err != nil || !info.IsDir() {
		return console.Usagef("--page %s: the folder does not exist", k.page)
	}
	return nil
}

// writePage writes the page of a story.
func (k *classroom) writePage(report demonstrationReport) error {
	stories := demo.Stories(report)
	if k.page == "" || len(stories) == 0 {
		return nil
	}
	text := story.Page(fmt.Sprintf("%02d %s", demo.Number(k.cmd.Name()), k.cmd.Name()), stories)
	if filepath.Ext(k.page) == ".svg" {
		text = stories[0].SVG(true)
	}
	err := os.WriteFile(k.page, []byte(text), 0o644)
	if err == nil {
		fmt.Fprintf(k.cmd.ErrOrStderr(), "page: %s\n", k.page)
	}
	return err
}

// check returns an error if flags contradict each other, and completes the configuration. It is called before the
// progress is set up.
func (k *classroom) check(nodes bool) error {
	changed := k.cmd.Flags().Changed
	// Asked by Changed and not by value: --naive alone means all ways, which is also the zero value.
	if changed("naive") {
		switch chosen := k.chosen(); {
		case len(chosen) == 0:
			var names []string
			for _, m := range k.mistakes {
				names = append(names, m.Name)
			}
			return console.Usagef("--naive=%s: there is no such way; there are %s", k.naive, strings.Join(names, ", "))
		case k.config.Pairs || nodes:
			return console.Usagef("--naive shows one kill for each way: it cannot be used with --pairs or --kill-nodes")
		}
	}
	if err := k.checkStory(nodes); err != nil {
		return err
	}
	// What stays would be names in an account that no server serves any more.
	if k.config.Keep && nodes {
		return console.Usagef("--keep cannot be used with --kill-nodes, whose cluster ends with the run")
	}
	if k.step {
		in, ok := k.cmd.InOrStdin().(*os.File)
		// A pipe would answer each step at once or never, in both cases without a reader.
		if !ok || !isatty.IsTerminal(in.Fd()) {
			return console.Usagef("--step waits for Enter before each step: standard input must be a terminal")
		}
		k.config.Step = stepper(in, k.cmd.ErrOrStderr())
	}
	k.config.Kept = func(names []string) { k.kept = append(k.kept, names...) }
	return nil
}

// chosen are the mistakes that --naive names.
func (k *classroom) chosen() (list []*rig.Mistake) {
	for _, m := range k.mistakes {
		if k.naive == allMistakes || m.Name == k.naive {
			list = append(list, m)
		}
	}
	return list
}

// steps are those that --fault can name: with mistakes, those at which their workers are killed.
func (k *classroom) steps(points []string) []string {
	if k.naive == "" {
		return points
	}
	return lesson.MistakePoints(k.chosen())
}

// stepper returns a function that says what comes next, and waits for a line, or the end, of in.
func stepper(in io.Reader, out io.Writer) func(context.Context, string) error {
	lines := bufio.NewReader(in)
	return func(ctx context.Context, next string) error {
		fmt.Fprintf(out, "\n-- next: %s\n-- press Enter ", next)
		read := make(chan error, 1)
		go func() {
			_, err := lines.ReadString('\n')
			read <- err
		}()
		select {
		case err := <-read:
			if errors.Is(err, io.EOF) {
				return errors.New("--step: standard input has ended")
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run runs a demonstration, or with --naive a lesson. points are the steps of the pattern.
func (k *classroom) run(ctx context.Context, c rig.Config, points []string,
	demonstrate func(context.Context, rig.Config) (lesson.PatternReport, error)) (demonstrationReport, error) {
	if k.naive == "" {
		report, err := demonstrate(ctx, c)
		if report == nil {
			return nil, err
		}
		return report, err
	}
	chosen := k.chosen()
	if c.Points == nil || len(c.Points) > 0 {
		if c.Points != nil { // --fault names steps
			chosen = slices.DeleteFunc(chosen, func(m *rig.Mistake) bool { return !slices.Contains(c.Points, m.Point) })
		}
		c.Points = lesson.PointsAfter(chosen, points)
		if c.Story > 0 {
			c.Points = c.Points[:1]
		}
	}
	return lesson.Teach(ctx, c, chosen, demonstrate)
}

// account starts a server if there is no connection string yet: with --keep one that has a dashboard.
func (k *classroom) account(ctx context.Context, connection *string, hierarchical bool) (stop func() error, err error) {
	if *connection != "" {
		return func() error { return nil }, nil
	}
	// A server inside this process would end with it. With --keep it is a process of its own that the user can look at in
	// the dashboard.
	if !k.config.Keep {
		*connection, stop, err = startThrowaway(hierarchical)
		return stop, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "lazuli-demo-")
	if err != nil {
		return nil, err
	}
	var flags []string
	if hierarchical {
		flags = append(flags, "--hierarchical-namespace")
	}
	s, err := killrig.StartServer(ctx, func(args ...string) *exec.Cmd { return lazuliCommand(self, args...) }, folder,
		flags...)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	*connection, k.dashboard, k.ownServer = s.Connection, s.Admin, true
	return func() error { return errors.Join(s.Terminate(), os.RemoveAll(folder)) }, nil
}

// showKept says what is kept and where it can be seen. A server that the verb has started goes on until ctx ends. err
// is the result of the run so far.
func (k *classroom) showKept(ctx context.Context, err error) {
	if !k.config.Keep || len(k.kept) == 0 {
		return
	}
	out := k.cmd.ErrOrStderr()
	fmt.Fprintln(out, "\nkept:")
	for _, name := range k.kept {
		fmt.Fprintln(out, "  "+name)
	}
	if !k.ownServer {
		fmt.Fprintln(out, "the dashboard of the server shows them: lazuli open --print says its address")
		return
	}
	fmt.Fprintf(out, "dashboard: %s\n", k.dashboard)
	if ctx.Err() != nil { // an interrupt ended the run
		return
	}
	if err != nil {
		fmt.Fprintln(out, "the run ended with an error, which is printed at the end")
	}
	fmt.Fprintln(out, "the server goes on until Ctrl+C, and is deleted then")
	<-ctx.Done()
}
