package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript/recorded"
	"github.com/superstep-dev/superstep/runlog"
)

// nowhere is a backend of a terminal that only draws.
type nowhere struct{}

func (nowhere) Engine(context.Context) (*superstep.Engine, error) {
	return nil, errors.New("no engine")
}
func (nowhere) Start(context.Context, *Start) (string, error) {
	return "", errors.New("nothing starts")
}
func (nowhere) Catalog(context.Context) (*Catalog, error)       { return &Catalog{Folder: "/proj"}, nil }
func (nowhere) Inbox(context.Context) ([]host.InboxItem, error) { return nil, nil }
func (nowhere) Command(context.Context, ...string) (string, error) {
	return "", errors.New("no command")
}

// onScreen is a terminal that shows a run, to which records are given by hand. The clock stands at the time of the last of them.
type onScreen struct {
	*Terminal
	now time.Time
}

func showRun(t testing.TB, pal Palette) *onScreen {
	s := &onScreen{}
	term, err := newTerminal(t.Context(), nowhere{}, pal, &TerminalOptions{Now: func() time.Time { return s.now }})
	if err != nil {
		t.Fatal(err)
	}
	s.Terminal = term
	f := &following{id: "7f3a21c0", loaded: true, stop: func() {}}
	s.runs[f.id], s.run = f, f
	s.view = newRunPane(term, f)
	return s
}

func (s *onScreen) give(rec *runlog.Record) {
	s.apply(s.run, rec)
	s.now = rec.Time
	s.nextCard()
}

func (s *onScreen) picture(w, h int) string {
	lines := s.lines(w, h)
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// The recorded sessions look as they should on the full screen.
func TestTerminalScreens(t *testing.T) {
	t.Parallel()
	for _, name := range recorded.Names() {
		recs := recorded.Load(name)
		n := len(recs)
		for _, size := range [][2]int{{60, 24}, {100, 30}, {160, 40}} {
			var b strings.Builder
			s := showRun(t, "")
			for i := range recs {
				s.give(&recs[i])
				if i == n/3 || i == n/2 || i == n*4/5 || recs[i].Kind == runlog.KindAsked {
					fmt.Fprintf(&b, "[after record %d of %d]\n%s\n", i+1, n, s.picture(size[0], size[1]))
				}
			}
			fmt.Fprintf(&b, "[the end]\n%s\n", s.picture(size[0], size[1]))
			s.view.expanded = true
			fmt.Fprintf(&b, "[all of it]\n%s\n", s.picture(size[0], 3*size[1]))
			path := filepath.Join("testdata", "terminal", fmt.Sprintf("%s-%d.txt", name, size[0]))
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(want) != b.String() {
				t.Errorf("%s is not as it was; look at the change, then run with -update", path)
			}
		}
	}
}

// Convention 29: any beginning of any log at any size is drawn within the screen, and nothing in it reaches the terminal as an escape sequence.
func TestTerminalAnySize(t *testing.T) {
	t.Parallel()
	names := recorded.Names()
	rapid.Check(t, func(rt *rapid.T) {
		recs := recorded.Load(rapid.SampledFrom(names).Draw(rt, "session"))
		s := showRun(t, "")
		n := rapid.IntRange(0, len(recs)).Draw(rt, "records")
		for i := range recs[:n] {
			s.give(&recs[i])
		}
		for range 3 {
			s.view.expanded = rapid.Bool().Draw(rt, "expanded")
			s.view.todos = rapid.Bool().Draw(rt, "tasks")
			s.view.scroll = rapid.IntRange(0, 50).Draw(rt, "scroll")
			s.setFocus(focus(rapid.IntRange(0, 2).Draw(rt, "focus")))
			w, h := rapid.IntRange(1, 250).Draw(rt, "width"), rapid.IntRange(1, 80).Draw(rt, "height")
			lines := s.lines(w, h)
			if len(lines) != h {
				rt.Fatalf("%d lines of %d at %d×%d", len(lines), h, w, h)
			}
			for _, l := range lines {
				if ansi.StringWidth(l) > w {
					rt.Fatalf("%q has %d cells of %d", l, ansi.StringWidth(l), w)
				}
				if strings.ContainsAny(l, "\x1b\x07\t\r\n\u009b") {
					rt.Fatalf("control characters in %q", l)
				}
			}
		}
	})
}

// coloured returns the screens of the recorded sessions and of the pages over them, from beginning to end, and the same without colours.
func coloured(t *testing.T, each func(where, coloured, bare string)) {
	for _, name := range recorded.Names() {
		var with [2][]string
		var where []string
		for i, pal := range []Palette{Usual, ""} {
			s := showRun(t, pal)
			recs := recorded.Load(name)
			draw := func(what string) {
				with[i] = append(with[i], s.picture(120, 40))
				if i == 0 {
					where = append(where, name+" "+what)
				}
			}
			for k := range recs {
				s.give(&recs[k])
				if k%max(1, len(recs)/12) == 0 || k == len(recs)-1 {
					draw(fmt.Sprintf("after %d records", k+1))
				}
			}
			s.view.expanded, s.view.todos = true, true
			s.setFocus(onPane)
			draw("expanded")
			s.showGraph()
			draw("graph")
			s.pop()
			s.push(newHelpPane(s.Terminal))
			draw("help")
			s.inbox = []host.InboxItem{{Run: "0099", Workflow: "ship", Path: "a", Key: "q", Task: "a", Kind: runlog.QuestionGate, Text: "May it?"}}
			s.push(newInboxPane(s.Terminal))
			draw("inbox")
			p := newRunsPane(s.Terminal)
			p.loaded = true
			for n, status := range []runlog.Status{runlog.Running, runlog.Paused, runlog.Interrupted, runlog.Completed, runlog.Partial, runlog.Failed,
				runlog.Cancelled, runlog.Quarantined, runlog.WaitingStorage} {
				p.all = append(p.all, runlog.Info{ID: fmt.Sprintf("%04d", n), Workflow: "ship", Status: status, Created: s.now})
			}
			s.push(p)
			draw("runs")
			for task := range slices.Values(s.run.run.Tasks) {
				s.push(newAgentPane(s.Terminal, s.run, task.Path))
				draw(task.Path)
				s.pop()
			}
		}
		for k := range where {
			each(where[k], with[0][k], with[1][k])
		}
	}
}

// Convention 39: without its colours the full screen says the same; each state is a sign and a word.
func TestConvention39Screens(t *testing.T) {
	t.Parallel()
	marks := regexp.MustCompile(`[^\pL\pN]+`) // of Markdown, which is styled in their place
	coloured(t, func(where, coloured, bare string) {
		if got, want := marks.ReplaceAllString(ansi.Strip(coloured), " "), marks.ReplaceAllString(bare, " "); got != want {
			t.Errorf("%s, with colours:\n%s\nand without:\n%s", where, ansi.Strip(coloured), bare)
		}
		if strings.Contains(where, " runs") {
			for _, word := range []string{"running", "paused", "interrupted", "completed", "partial", "failed", "cancelled", "quarantined", "waiting st"} {
				if !strings.Contains(bare, word) {
					t.Errorf("no %s in:\n%s", word, bare)
				}
			}
		}
	})
}

// Convention 40: the full screen has the colours of the terminal's own palette that are legible on light and on dark.
func TestConvention40Screens(t *testing.T) {
	t.Parallel()
	legible, seen := strings.Fields("0 1 2 3 22 23 31 32 33 34 35 36 39"), map[string]bool{}
	coloured(t, func(where, coloured, _ string) {
		for _, m := range regexp.MustCompile(`\x1b\[([0-9;:]*)m`).FindAllStringSubmatch(coloured, -1) {
			for code := range strings.SplitSeq(m[1], ";") {
				if seen[code] = true; code != "" && !slices.Contains(legible, code) {
					t.Errorf("%s: the code %q", where, code)
				}
			}
		}
	})
	if !seen["31"] || !seen["32"] || !seen["33"] {
		t.Errorf("the codes are %v", seen)
	}
}

// A theme changes the colors alone: without them the screen is the same.
func TestThemes(t *testing.T) {
	t.Parallel()
	recs := recorded.Load("failure")
	pictures := map[string]string{}
	for _, theme := range append([]string{""}, Themes()...) {
		s := showRun(t, Palette(theme))
		for i := range recs {
			s.give(&recs[i])
		}
		p := s.picture(100, 30)
		if colored := strings.Contains(p, "\x1b["); colored != (theme != "") {
			t.Errorf("%q: there are colors: %t", theme, colored)
		}
		for _, other := range pictures {
			if other == p {
				t.Errorf("%q looks like another theme", theme)
			}
		}
		pictures[theme] = p
		var plain []string
		for line := range strings.SplitSeq(ansi.Strip(p), "\n") {
			plain = append(plain, strings.TrimRight(line, " "))
		}
		if got := strings.Join(plain, "\n"); pictures[""] != "" && got != pictures[""] {
			t.Errorf("%q changes more than colors:\n%s", theme, got)
		}
	}
	if light := pictures[string(Light)]; strings.Contains(light, "\x1b[33m") || strings.Contains(light, "\x1b[2m") {
		t.Error("light screens have yellow or faint text")
	}
}
