package journal

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/runlog"
)

// A UsedError reports that one attempt of a task used a key twice, where every use needs a key of its own.
type UsedError struct {
	Kind   string    // "effect", "question", "sleep", "call", "turn", "job" or "agent"
	Name   string    // of the agent
	Path   string    // of the scope, "" for that of a task without a log
	Key    string    // that was used twice
	Places [2]string // where, as file.go:12, the first one first; "" if no code of the user's is there
}

func (e *UsedError) Error() string {
	at, what := "", fmt.Sprintf("%s %q", e.Kind, e.Key)
	if first, second := e.Places[0], e.Places[1]; first == second && first != "" {
		at = " (both at " + first + ")"
	} else if first != "" && second != "" {
		at = fmt.Sprintf(" (at %s and at %s)", first, second)
	}
	if e.Kind == "job" {
		return fmt.Sprintf("%s is a second job of one name in one attempt%s; give each an ID of its own, or a scope of its own, such as Scope().Inner(\"2\")",
			e.Key, at)
	}
	if e.Kind == "agent" {
		return fmt.Sprintf("agent %s is a second agent under one key in one attempt%s; give each a Work.Key of its own, such as %q, or a scope of its own, "+
			"such as Scope().Inner(%[3]q)", e.Name, at, e.Name+"-2")
	}
	return fmt.Sprintf("%s is used twice in one attempt%s; give each use a key of its own, such as %q", what, at, e.Key+"/2")
}

// uses holds the keys that one attempt of a task has used.
type uses struct {
	mu    sync.Mutex
	at    map[use][8]uintptr
	waits map[use]string // the questions without an answer, by what they ask
	head  atomic.Uint64  // of the log when it began, or a branch of it ran again
}

type use struct {
	path, key string
	question  bool
}

// Attempt returns the scope for a new attempt of its task. In it, and in all of its Inner scopes, a key is used once: a second use is a *UsedError. The key
// of an effect that has failed may be used again. A nil Scope returns one that checks the same and records nothing.
func (s *Scope) Attempt() *Scope {
	a := &struct {
		Scope
		uses
	}{}
	if s != nil {
		a.Scope = *s
	}
	a.used, a.again = &a.uses, false
	a.head.Store(a.Scope.Head())
	return &a.Scope
}

// Reuse returns the scope for a caller that uses keys of it again on purpose, to get the recorded outcome.
func (s *Scope) Reuse() *Scope {
	if s == nil || s.again {
		return s
	}
	free := *s
	free.again = true
	return &free
}

// Use takes a key for something that consists of several effects. Kind names it in the error, a *UsedError if the attempt has used the key. Free, if called,
// allows the key to be used again.
func (s *Scope) Use(kind, key string) (free func(), err error) {
	return func() { s.free(key) }, s.take(kind, "", key)
}

// take notes that the attempt uses a key.
func (s *Scope) take(kind, name, key string) error {
	if !utf8.ValidString(key) {
		return fmt.Errorf("the key %q of the %s is not UTF-8, and would be another one after a resume; quote it, such as with url.PathEscape", key, kind)
	}
	if s == nil || s.used == nil || s.again {
		return nil
	}
	var at [8]uintptr
	runtime.Callers(3, at[:])
	u := use{s.path, key, kind == "question"}
	s.used.mu.Lock()
	defer s.used.mu.Unlock()
	if first, twice := s.used.at[u]; twice {
		return &UsedError{Kind: kind, Name: name, Path: s.Path(), Key: key, Places: [2]string{place(first), place(at)}}
	}
	put(&s.used.at, u, at)
	return nil
}

// free notes that the key of an effect may be used again.
func (s *Scope) free(key string) {
	if s == nil || s.used == nil || s.again {
		return
	}
	s.used.mu.Lock()
	defer s.used.mu.Unlock()
	delete(s.used.at, use{path: s.path, key: key})
}

// wait notes whether the attempt has to wait for the answer to a question.
func (s *Scope) wait(path string, q *runlog.Question, waits bool) {
	if s.used == nil {
		return
	}
	s.used.mu.Lock()
	defer s.used.mu.Unlock()
	if u := (use{path, q.Key, true}); waits {
		put(&s.used.waits, u, q.Text)
	} else {
		delete(s.used.waits, u)
	}
}

// Unwaited returns an error if the attempt has asked a question that had no answer, and has not given it up by Withdraw. Who ends an attempt with a result
// calls it: the result cannot be one of the answer. An attempt that ends with another error than that of its question is told how to wait as well.
func (s *Scope) Unwaited(err error) error {
	if s == nil || s.used == nil || err != nil && Waits(err) {
		return err
	}
	s.used.mu.Lock()
	defer s.used.mu.Unlock()
	for _, u := range slices.SortedFunc(maps.Keys(s.used.waits), func(a, b use) int { return cmp.Compare(a.path+a.key, b.path+b.key) }) {
		const dropped = "it asked %q and did not wait for the answer; return the error of Ask"
		text := clean.Clip(s.used.waits[u], 80)
		if _, asked := s.used.at[u]; err != nil && asked {
			return fmt.Errorf("%w; "+dropped+", or wrap it with %%w", err, text)
		} else if err == nil {
			return fmt.Errorf(dropped, text)
		}
	}
	return err
}

// place returns the first of the callers that does not belong to the packages of this module that nodes call.
func place(at [8]uintptr) string {
	const module = "github.com/superstep-dev/superstep/"
	frames := runtime.CallersFrames(at[:])
	for {
		f, more := frames.Next()
		name, ours := strings.CutPrefix(f.Function, module)
		pkg, _, _ := strings.Cut(name, ".")
		switch {
		case ours && (pkg == "journal" || pkg == "graph" || pkg == "agent" || pkg == "agent/team" || pkg == "workflow"):
		case f.Function == "" || strings.HasPrefix(f.Function, "runtime.") || strings.HasPrefix(f.Function, "sync.") || ours && strings.HasPrefix(pkg, "internal/"):
			return ""
		default:
			return fmt.Sprintf("%s:%d", path.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}
