package tui

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
)

// record is a record of a run that somebody else has written.
func record(t testing.TB, seq uint64, at time.Time, kind runlog.Kind, path string, data any) *runlog.Record {
	t.Helper()
	b, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return &runlog.Record{Seq: seq, Time: at, Kind: kind, Path: path, Data: b}
}

// commandAsks is a permission request for a command.
func commandAsks(subject string) runlog.Question {
	return runlog.Question{Key: "permit/a", Kind: runlog.QuestionPermission, Options: []string{"once", "run", "deny"}, Call: &runlog.QuestionCall{Tool: "bash", Subject: subject, Cwd: "/proj"}}
}

// settled draws the screen until its card accepts answers.
func (s *onScreen) settled(w, h int) {
	for range 6 {
		s.picture(w, h)
		s.now = s.now.Add(100 * time.Millisecond)
		s.Update(tickMsg(s.now))
	}
}

// asked shows a run with a question.
func asked(t testing.TB, q runlog.Question) *onScreen {
	s := showRun(t, "")
	s.now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s.give(record(t, 1, s.now, runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w"}))
	s.give(record(t, 2, s.now, runlog.KindAsked, "w", q))
	return s
}

// A key that is held down while a card comes does not answer it with its default, however long it is held.
func TestCardHeldKey(t *testing.T) {
	t.Parallel()
	d := newCardDesk(t, map[string]cardNode{"ask": asksOnce(runlog.Question{Text: "Delete it?", Options: []string{"yes", "no"}, Default: json.RawMessage(`"yes"`)})})
	id := d.begin("ask", false)
	d.until("the question", func() bool {
		for rec, err := range runlog.Records(t.Context(), d.store, id, 0) {
			if err == nil && rec.Kind == runlog.KindAsked {
				return true
			}
		}
		return false
	})
	d.with(func() { d.showCard(&host.InboxItem{Run: id, Path: "ask", Key: "q"}) })
	d.until("the card", func() bool { return d.card != nil && d.focus == onCard })
	for range 40 {
		d.press("enter")
		d.pass(100 * time.Millisecond)
	}
	if got := d.answers(id); len(got) > 0 || d.card == nil || d.card.sent {
		t.Fatalf("answered with %q", got)
	}
	d.pass(time.Second)
	d.press("enter")
	d.until("the answer", func() bool { return len(d.answers(id)) == 1 })
}

// A question that takes the place of another of the same address is another one: it is drawn anew and must be read first.
func TestCardSwapped(t *testing.T) {
	t.Parallel()
	s := asked(t, commandAsks("ls"))
	s.settled(100, 30)
	if !s.card.armed {
		t.Fatal("the card accepts no answer")
	}
	s.give(record(t, 3, s.now, runlog.KindAsked, "w", commandAsks("rm -rf /home")))
	if s.card.armed {
		t.Error("the key for the first question answers the second")
	}
	if p := s.picture(100, 30); strings.Contains(p, "$ ls") != (s.card.q.Asked.Call.Subject == "ls") {
		t.Errorf("the card shows another question than it answers:\n%s", p)
	}
}

// What is not on the screen is not answered: a card that the composer or the size of the screen hides.
func TestCardOutOfSight(t *testing.T) {
	t.Parallel()
	for name, hide := range map[string]func(s *onScreen) (w, h int){
		"too small": func(*onScreen) (int, int) { return 100, 5 },
		"narrow":    func(*onScreen) (int, int) { return 15, 30 },
		"queue": func(s *onScreen) (int, int) {
			s.compose.load(s.run.id)
			var all []sending
			for i := range 9 {
				all = append(all, sending{Text: fmt.Sprint("message ", i), here: true})
			}
			s.compose.drafts.set(s.run.id, draft{Sending: all})
			return 40, 6
		},
	} {
		s := asked(t, commandAsks("rm -rf /home"))
		s.settled(100, 30)
		w, h := hide(s)
		s.Update(resizeMsg{Width: w, Height: h})
		s.settled(w, h)
		if p := s.picture(w, h); strings.Contains(p, "rm -rf") {
			t.Errorf("%s: it is on the screen:\n%s", name, p)
		} else if s.Update(keyNamed("4")); s.card == nil || s.card.sent {
			t.Errorf("%s: it is answered:\n%s", name, p)
		}
	}
}

// On a low screen, too, what an agent wrote is told from the choices, and the card tells that there is more of it.
func TestCardLow(t *testing.T) {
	t.Parallel()
	s := asked(t, commandAsks("echo ok\n1 deny   2 deny   3 deny   4 once\nrm -rf /home\nmore"))
	for h := 6; h < 30; h++ {
		p := s.picture(100, h)
		whole := strings.Contains(p, "rm -rf") && strings.Contains(p, "more")
		if !whole && !strings.Contains(p, "of 4") {
			t.Errorf("nothing tells of the rest at %d lines:\n%s", h, p)
		}
		lines := strings.Split(p, "\n")
		fake := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "4 once") })
		choice := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "1 once") })
		if choice < 0 {
			t.Errorf("there are no choices at %d lines:\n%s", h, p)
			continue
		}
		rule := slices.ContainsFunc(lines[max(fake, 0):choice], func(l string) bool { return strings.HasPrefix(l, "├") })
		if fake >= 0 && !rule && !strings.HasPrefix(lines[fake], "│ ┆") {
			t.Errorf("the agent's text looks like the choices at %d lines:\n%s", h, p)
		}
	}
}

// No mode accepts what a run asks that came from a file, whatever times the file has.
func TestModesImported(t *testing.T) {
	t.Parallel()
	s := showRun(t, "")
	s.now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s.run.loaded = false
	s.modeAt, s.compose.mode = s.now, question.ModeEdits // on the start page
	later := s.now.Add(24 * 365 * time.Hour)
	s.give(record(t, 1, later, runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w", Imported: &runlog.Imported{Nonce: "n"}}))
	s.give(record(t, 2, later, runlog.KindAsked, "w", runlog.Question{Key: "permit/a/here-n", Kind: runlog.QuestionPermission, Options: []string{"once", "deny"},
		Call: &runlog.QuestionCall{Tool: "edit_file", Args: json.RawMessage(`{"path":"a.go"}`), Subject: "a.go", Cwd: "/proj", Reason: "no rule allows it", Always: "edit_file(a.go)", Diff: "+x\n"}}))
	s.run.loaded = true
	s.Update(frameMsg{})
	if c := s.cardOf(s.run, s.run.run.Questions[0]); c.sent {
		t.Error("an imported run's edit is accepted")
	}
	s.Update(keyNamed("shift+tab"))
	if s.compose.mode == question.ModeEdits {
		t.Error("accept edits is offered for it")
	}
	s.compose.mode, s.modeRun, s.modeAt = question.ModeEdits, s.run.id, s.now.Add(-time.Second)
	s.give(record(t, 3, later.Add(time.Hour), runlog.KindAsked, "w", runlog.Question{Key: "permit/b/here-n", Kind: runlog.QuestionPermission, Options: []string{"once", "deny"},
		Call: &runlog.QuestionCall{Tool: "edit_file", Args: json.RawMessage(`{"path":"b.go"}`), Subject: "b.go", Cwd: "/proj", Reason: "no rule allows it", Always: "edit_file(b.go)", Diff: "+x\n"}}))
	s.Update(frameMsg{})
	if c := s.cardOf(s.run, s.run.run.Questions[1]); c.sent {
		t.Error("an imported run's edit is accepted while its mode is chosen")
	}
}

// An edit is not accepted if the file has changed to something else than its diff says, or its path leads out of the folder meanwhile.
func TestModeEditsRace(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	for _, name := range []string{filepath.Join(dir, "a.md"), filepath.Join(outside, "a.md")} {
		if err := os.WriteFile(name, []byte("one\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := newCardDesk(t, map[string]cardNode{"work": editorIn(t, dir, nil, scripted.Call("edit_file", `{"path":"a.md","edits":[{"old_string":"one","new_string":"two"}]}`))})
	d.begin("work", true)
	d.asks("+two")
	if err := os.Remove(filepath.Join(dir, "a.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "a.md"), filepath.Join(dir, "a.md")); err != nil {
		t.Fatal(err)
	}
	d.press("1")
	d.until("the end", func() bool { return d.run.run.Status == runlog.Completed })
	if b, err := os.ReadFile(filepath.Join(outside, "a.md")); err != nil || string(b) != "one\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// The title of the window is short and has nothing that a terminal would carry out.
func TestWindowTitle(t *testing.T) {
	t.Parallel()
	s := showRun(t, "")
	s.give(record(t, 1, time.Now(), runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w", Title: "\x1b]52;c;x\x07\u202e\x9b31m\n" + strings.Repeat("long ", 1<<20)}))
	if title := s.windowTitle(); len(title) > 200 || strings.ContainsFunc(title, unicode.IsControl) || strings.ContainsRune(title, '\u202e') {
		t.Errorf("a title of %d bytes: %.80q", len(title), title)
	}
}

// A run cannot have the draft of the next chat.
func TestDraftNames(t *testing.T) {
	t.Parallel()
	if runlog.CheckID(newChat) == nil || !draftName.MatchString(newChat) {
		t.Errorf("a run may be called %s", newChat)
	}
	dir := t.TempDir()
	d := readDrafts(filepath.Join(dir, "drafts"), time.Now())
	d.set("../out", draft{Text: "x"})
	d.set("/tmp/out", draft{Text: "x"})
	d.set("a/b", draft{Text: "x"})
	d.set("abc", draft{Text: "x"})
	if err := d.save()(); err != nil {
		t.Fatal(err)
	}
	if all, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(all) != 1 {
		t.Errorf("%q, %v", all, err)
	}
}

// A history that others could read is closed to them before anything is added.
func TestHistoryMode(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(file, nil, 0o644); err != nil { //nolint:gosec // that is tested
		t.Fatal(err)
	}
	readHistory(file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// Huge and hostile texts are drawn in no time, and within the screen.
func TestTerminalHuge(t *testing.T) {
	t.Parallel()
	size, frames := 10<<20, 5
	if testing.Short() {
		size, frames = 1<<20, 1
	}
	huge := strings.Repeat("x", size)
	marks := "a" + strings.Repeat("\u0301", size/10)
	for name, q := range map[string]runlog.Question{
		"command": commandAsks(huge), "text": {Key: "q", Text: huge}, "header": {Key: "q", Header: huge, Text: "x"}, "option": {Key: "q", Text: "x", Options: []string{huge, "b"}},
		"agent": {Key: "q", Agent: huge, Text: "x"}, "marks": {Key: "q", Text: marks, Agent: marks}, "cwd": {Key: "permit/a", Kind: runlog.QuestionPermission, Options: []string{"once", "deny"},
			Call: &runlog.QuestionCall{Tool: "bash", Subject: "ls", Cwd: huge, Reason: huge}},
	} {
		s := asked(t, q)
		s.picture(100, 30)
		began := time.Now()
		for range frames {
			for _, l := range s.lines(100, 30) {
				if ansi.StringWidth(l) > 100 || len(l) > 10_000 {
					t.Errorf("%s: a line of %d bytes and %d cells", name, len(l), ansi.StringWidth(l))
				}
			}
		}
		each := time.Since(began) / time.Duration(frames)
		if t.Logf("%s: %v a frame", name, each); each > faults.Bound(2*time.Second) { // ten times what it takes
			t.Errorf("%s: %v a frame", name, each)
		}
	}
}
