// Package summary holds what a run's journal tells listings of the run: how far it is, what it waits for and what it cost, see [runlog.Batch]. A reader
// needs neither the log of the run nor its folder.
package summary

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/runlog"
)

// What a run may wait for.
const (
	Person    = "person"     // answers to its questions
	Message   = "message"    // the next message of a conversation: nothing is wanted of anybody
	Budget    = "budget"     // a larger budget
	RateLimit = "rate_limit" // the end of one, until Until
	Retry     = "retry"      // the next attempt, until Until
	Date      = "date"       // that of Until
	Storage   = "storage"
	Operator  = "operator" // somebody has paused it
	Worker    = "worker"   // a process that takes or resumes it; never stored
	Run       = "run"      // the end of its child runs: nothing is wanted of anybody
)

// A Summary describes a run as of a record. It is JSON of at most runlog.MaxSummary-64 bytes.
type Summary struct {
	Head     uint64     `json:"head"`            // the record
	Steps    int        `json:"steps,omitempty"` // supersteps committed
	Done     int        `json:"done,omitempty"`  // nodes of its graph that have a result
	Of       int        `json:"of,omitempty"`    // all of them; 0 if it is not known
	Seen     []byte     `json:"seen,omitempty"`  // which are done: a bit each, in the order of the first snapshot
	Waits    string     `json:"waits,omitempty"` // what it waits for; "" if it does not wait, or has ended
	Until    *time.Time `json:"until,omitempty"`
	Failed   string     `json:"failed,omitempty"` // the path of the first task for which it failed or is partial
	Tokens   int64      `json:"tokens,omitempty"`
	Cost     int64      `json:"cost,omitempty"`     // in millionths of a US dollar
	More     bool       `json:"more,omitempty"`     // a model that tells no price is not counted in Cost
	Imported bool       `json:"imported,omitempty"` // the run, or one that it is a fork of, was made of a file
	Child    bool       `json:"child,omitempty"`    // a task of another run waits for it, see runlog.Info.IsChild

	Folder string `json:"project,omitempty"` // the project that the run belongs to, "" if it is not known

	Queue *runlog.Queue `json:"queue,omitempty"` // of a run that began queued

	Open      int        `json:"open,omitempty"`      // questions that need an answer of a person
	Questions []Question `json:"questions,omitempty"` // the oldest of them, as many as there is room for
}

// A Question is an open question of a run, in short.
type Question struct {
	Path  string              `json:"path"`
	Key   string              `json:"key"`
	Kind  runlog.QuestionKind `json:"kind,omitempty"`
	Agent string              `json:"agent,omitempty"`
	Text  string              `json:"text"` // its header, or else the start of its first line
	Asked time.Time           `json:"asked"`
}

// longest is how many characters there are of a question, most how many questions.
const (
	longest = 80
	most    = 5
)

// Rests reports whether the run does nothing until Until.
func (s *Summary) Rests() bool { return s.Waits == RateLimit || s.Waits == Retry || s.Waits == Date }

// Asks reports whether a question of a kind needs an answer of a person.
func Asks(kind runlog.QuestionKind) bool {
	return kind != runlog.QuestionMessage && kind != runlog.QuestionRun
}

// Short shortens a question, which must have no secrets left: half of one is not recognized as one.
func Short(path string, q *runlog.Question, asked time.Time) Question {
	first, _, _ := strings.Cut(strings.TrimSpace(clean.Text(q.Text)), "\n")
	text := clean.Text(q.Header)
	if strings.TrimSpace(text) == "" {
		text = first
	}
	return Question{
		Path: path, Key: q.Key, Kind: q.Kind, Agent: clean.Clip(q.Agent, longest/2), Text: clean.Clip(strings.Join(strings.Fields(text), " "), longest),
		Asked: asked.UTC().Truncate(time.Second),
	}
}

// Encode returns the stored form, of as many of the questions as fit. Redact removes secrets from JSON.
func (s *Summary) Encode(redact func(json.RawMessage) json.RawMessage) string {
	out := *s
	for out.Questions = s.Questions[:min(most, len(s.Questions))]; ; {
		b, err := json.Marshal(&out)
		if err != nil {
			return "" // no such value
		}
		if b = redact(b); len(b) <= runlog.MaxSummary-64 {
			return string(b)
		}
		switch n := len(out.Questions); {
		case n > 0:
			out.Questions = out.Questions[:n-1]
		case out.Failed != "":
			out.Failed = ""
		case out.Of > 0:
			out.Seen, out.Of, out.Done = nil, 0, 0
		default:
			out.Folder = ""
		}
	}
}

// Elsewhere reports whether a listed run belongs to another project than that of the folder. A run that does not tell belongs to all, and all to "".
func Elsewhere(info *runlog.Info, folder string) bool {
	s := Of(info)
	return folder != "" && s != nil && s.Folder != "" && s.Folder != folder
}

// Of returns the summary of a listed run. It returns nil if it has none, as do runs that no journal has written: those of older versions, and those that
// were imported and not resumed yet. It also returns nil for an encrypted run whose key is missing.
func Of(info *runlog.Info) *Summary {
	var s Summary
	if info.Summary == "" || json.Unmarshal([]byte(info.Summary), &s) != nil {
		return nil
	}
	switch {
	case info.Status.Ended() || info.Status == runlog.Failed:
		s.Waits, s.Until, s.Open, s.Questions = "", nil, 0, nil
	case info.Status == runlog.Queued:
		if s.Until = nil; !s.Rests() || s.Queue == nil {
			s.Waits = Worker
		}
		if s.Queue != nil && !s.Queue.NotBefore.IsZero() {
			s.Until = &s.Queue.NotBefore
		}
	case info.Status == runlog.Interrupted && s.Open == 0:
		s.Waits, s.Until = Worker, nil
	}
	return &s
}
