package crash

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Files is a World in a directory, with a file for each run. What happened stays there
// when the process is killed: the system has it by then.
type Files struct {
	Dir  string
	Slow time.Duration // the most that an effect takes before and after it happens
}

// Do implements World.
func (f *Files) Do(a *Act) error {
	f.pause()
	err := f.note(a.Run, "did %s %s %s %s", a.Kind, a.Path, a.Effect, a.Key)
	f.pause()
	return err
}

// Happened implements World.
func (f *Files) Happened(a *Act) (bool, error) {
	h, err := f.History(a.Run)
	return h.Did[a.Path+" "+a.Effect] > 0, err
}

// Ran implements World.
func (f *Files) Ran(run, path string) { _ = f.note(run, "ran %s", path) }

func (f *Files) pause() {
	if f.Slow > 0 {
		time.Sleep(rand.N(f.Slow))
	}
}

// note adds a line in one write, which does not mix with those of others.
func (f *Files) note(run, format string, args ...any) (err error) {
	w, err := os.OpenFile(filepath.Join(f.Dir, run), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintf(w, format+"\n", args...); err != nil {
		_ = w.Close()
		return err
	}
	return w.Close()
}

// A History is what has happened to the world for a run.
type History struct {
	Did  map[string]int             // how often each "path effect" has happened
	Once map[string]bool            // those that may happen once
	Keys map[string]map[string]bool // the keys each came with
	Ran  map[string]int             // how often the task of a path has begun
}

// History reads the file of a run.
func (f *Files) History(run string) (*History, error) {
	h := &History{Did: map[string]int{}, Once: map[string]bool{}, Keys: map[string]map[string]bool{}, Ran: map[string]int{}}
	b, err := os.ReadFile(filepath.Join(f.Dir, run))
	if os.IsNotExist(err) {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	for line := range bytes.Lines(b) {
		words := strings.Fields(string(line))
		switch {
		case len(words) == 5 && words[0] == "did":
			what := words[2] + " " + words[3]
			h.Did[what]++
			h.Once[what] = words[1] == "once"
			if h.Keys[what] == nil {
				h.Keys[what] = map[string]bool{}
			}
			h.Keys[what][words[4]] = true
		case len(words) == 2 && words[0] == "ran":
			h.Ran[words[1]]++
		default:
			return h, fmt.Errorf("the world of run %s has the line %q", run, line)
		}
	}
	return h, nil
}
