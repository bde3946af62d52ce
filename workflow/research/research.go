// Package research is the built-in workflow "research": it answers a question from a
// folder of documents, or from the web, with a brief in which every citation has been
// checked against its source.
//
//	planner → explorer → researcher (one task per direction) → coverage ⟲ → synthesizer
//
// The planner turns the question into one or two broad queries, the explorer maps what
// the sources say into two to four directions, a researcher per direction collects
// quotes, and the coverage check sends those out again that found too little while
// there is a search budget left. The synthesizer weighs what was found and writes.
package research

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/workflow"
)

// Name is what users call the workflow by.
const Name = "research"

// Options are what the workflow is built from.
type Options struct {
	// Model gives the model of a name, and the one to use for "". It is required.
	Model func(name string) (model.Model, error)
	// Note is said at the start of a run that leaves the choice of the model to Model,
	// such as why it is the one it is. Defaults to nothing.
	Note string
	// SearchWeb searches the web. Nil if it cannot be searched.
	SearchWeb *tool.Tool
	// Dir is what relative paths are relative to; defaults to the process's own.
	Dir string
	// CacheDir is where indexes of documents are kept; defaults to the user's cache folder.
	CacheDir string
}

// Inputs are the inputs of the workflow.
type Inputs struct {
	Question    string `json:"question" jsonschema:"what to find out"`
	Docs        string `json:"docs,omitempty" jsonschema:"the folder of documents to search; needed unless TAVILY_API_KEY lets it search the web"`
	Model       string `json:"model,omitempty" jsonschema:"the model to use, as provider/name, or offline"`
	MaxSearches int    `json:"max_searches,omitempty" jsonschema:"the search budget; defaults to 6"`
	Report      string `json:"report,omitempty" jsonschema:"the file to write the brief to, or the folder for a brief-ID.md; defaults to the folder here"`
}

// An Output is what the workflow ends with.
type Output struct {
	Text       string       `json:"text"`   // the brief, as it is in the file
	Report     string       `json:"report"` // the file
	Model      string       `json:"model"`
	Searches   int          `json:"searches"`
	Dropped    int          `json:"dropped,omitempty"` // quotes that were not in their source
	Directions []OutputPart `json:"directions"`
	Sources    []Source     `json:"sources"` // every verified source; the brief cites some or all
}

// An OutputPart is a direction and how well it is supported.
type OutputPart struct {
	Topic      string  `json:"topic"`
	Sources    int     `json:"sources"`
	Confidence float64 `json:"confidence"` // 0 to 1
}

// A DocsError says that there is nothing to search, or that it cannot be.
type DocsError struct{ Why string }

func (e *DocsError) Error() string { return e.Why }

// FailureCode is the code of runs that fail with the error.
func (e *DocsError) FailureCode() string { return "inputs" }

// New makes the workflow.
func New(opt *Options) (*workflow.Workflow, error) {
	if opt == nil || opt.Model == nil {
		return nil, errors.New("workflow research: it needs a way to get models")
	}
	w, err := workflow.Func(Name, "Answer a question from documents or the web, with checked citations",
		func(ctx context.Context, in Inputs, e *workflow.Exec) (Output, graph.Final[State], error) {
			r := &researcher{opt: opt}
			defer r.close()
			flow, err := r.flow()
			if err != nil {
				return Output{}, graph.Final[State]{}, err
			}
			var begin State
			if e.Journal.Info().Snapshot == 0 { // else the run goes on with the state it has
				if begin, err = r.begin(in); err != nil {
					return Output{}, graph.Final[State]{}, err
				}
			}
			final, err := flow.Execute(ctx, begin, &e.Graph)
			return final.State.output(), final, err
		})
	if err != nil {
		return nil, err
	}
	w.Flow = func(json.RawMessage) (graph.Reading, error) { return (&researcher{opt: opt}).flow() }
	w.Prepare = func(raw json.RawMessage) (json.RawMessage, error) {
		var in Inputs
		if err := json.Unmarshal(raw, &in); err != nil {
			return nil, fmt.Errorf("workflow research: its inputs: %w", err)
		}
		if err := (&researcher{opt: opt}).prepare(&in); err != nil {
			return nil, err
		}
		return json.Marshal(in)
	}
	return w, nil
}

// prepare finds out whether there can be a run, and puts into its inputs what depends on
// where and when it begins. It may be called again with what it made.
func (r *researcher) prepare(in *Inputs) error {
	var problems []string
	if strings.TrimSpace(in.Question) == "" {
		problems = append(problems, "question: is empty; say what to find out")
	}
	if in.MaxSearches == 0 {
		in.MaxSearches = 6
	}
	if in.MaxSearches < 2 {
		problems = append(problems, fmt.Sprintf("max_searches: want at least 2 (one to explore, one to look into it), got %d", in.MaxSearches))
	}
	if problems != nil {
		return &workflow.InputsError{Workflow: Name, Problems: problems}
	}
	if in.Docs != "" {
		in.Docs = r.abs(in.Docs)
		if info, err := os.Stat(in.Docs); err != nil {
			return &DocsError{fmt.Sprintf("the documents cannot be read: %v; give a folder with --docs", err)}
		} else if !info.IsDir() {
			return &DocsError{fmt.Sprintf("%s is a file; give the folder that it is in with --docs", in.Docs)}
		}
	} else if r.opt.SearchWeb == nil {
		return &DocsError{"there is nothing to search; give a folder with --docs, or set TAVILY_API_KEY to search the web"}
	}
	report := r.abs(in.Report)
	info, err := os.Stat(report)
	if in.Report == "" || os.IsPathSeparator(in.Report[len(in.Report)-1]) || err == nil && info.IsDir() {
		report = strings.TrimSuffix(report, string(filepath.Separator)) + string(filepath.Separator) // a folder
	}
	if err := writable(filepath.Dir(report)); err != nil {
		return &workflow.InputsError{Workflow: Name, Problems: []string{fmt.Sprintf("report: %v; choose another place with --report", err)}}
	}
	in.Report = report
	m, err := r.opt.Model(in.Model)
	if err != nil {
		return err
	}
	in.Model = m.Name()
	return nil
}

// begin makes the first state of a run.
func (r *researcher) begin(in Inputs) (State, error) {
	if err := r.prepare(&in); err != nil { // for hosts that began the run without
		return State{}, err
	}
	return State{Question: in.Question, Max: in.MaxSearches, Docs: in.Docs, Model: in.Model, Report: in.Report}, nil
}

// file is where a run writes its report: in a folder each has a file of its own, so that
// a fork leaves that of its parent alone.
func (s *State) file(run string) string {
	if s.Report != "" && os.IsPathSeparator(s.Report[len(s.Report)-1]) {
		return filepath.Join(s.Report, "brief-"+run+".md")
	}
	return s.Report
}

func (r *researcher) abs(name string) string {
	if !filepath.IsAbs(name) && r.opt.Dir != "" {
		name = filepath.Join(r.opt.Dir, name)
	}
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

func (s *State) output() Output {
	out := Output{Text: s.Brief, Report: s.Report, Model: s.Model, Searches: s.Searches, Dropped: s.Dropped, Sources: s.numbered()}
	for _, d := range s.Directions {
		out.Directions = append(out.Directions, OutputPart{d.Topic, len(s.sources(d.Key)), s.confidence(d.Key)})
	}
	return out
}

// researcher is the workflow in one process: what its nodes share. Everything in it is
// made when it is first needed, from the state, so that a run that is taken up again
// opens what it had.
type researcher struct {
	opt *Options

	mu    sync.Mutex
	root  *builtin.Root
	docs  *builtin.Docs
	model model.Model
}

func (r *researcher) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.docs != nil {
		_ = r.docs.Close()
	}
	if r.root != nil {
		_ = r.root.Close()
	}
}

// modelFor gives the model that the run began with.
func (r *researcher) modelFor(s *State) (model.Model, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.model == nil {
		m, err := r.opt.Model(s.Model)
		if err != nil {
			return nil, err
		}
		r.model = m
	}
	return r.model, nil
}

// open gives the tools to search and read with, and the folder, nil for none.
func (r *researcher) open(ctx context.Context, t *graph.Task, s *State) ([]*tool.Tool, *builtin.Root, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var tools []*tool.Tool
	if s.Docs != "" {
		if r.docs == nil {
			t.Scope().Live("note", Note{"opening the index of " + s.Docs})
			docs, err := builtin.OpenDocs(ctx, s.Docs, &builtin.DocsOptions{CacheDir: r.opt.CacheDir})
			if err != nil {
				return nil, nil, err
			}
			r.docs = docs
			if docs.Stats().Files == 0 {
				return nil, nil, &DocsError{fmt.Sprintf("there is nothing to read in %s: no Markdown, text, HTML or source files; give another folder with --docs", s.Docs)}
			}
		}
		if r.root == nil {
			root, err := builtin.OpenRoot(s.Docs)
			if err != nil {
				return nil, nil, err
			}
			r.root = root
		}
		tools = append(tools, withoutBriefs(builtin.SearchDocs(r.docs), own(s)), readNoBriefs(builtin.ReadFile(r.root), own(s)), grepWithoutBriefs(builtin.Grep(r.root), own(s)))
	}
	if r.opt.SearchWeb != nil {
		tools = append(tools, r.opt.SearchWeb)
	}
	return append(tools, builtin.Think()), r.root, nil
}

// own is the path of the report among the documents, "" if it is not there.
func own(s *State) string {
	dir, file := filepath.Split(s.Report)
	for _, report := range []string{s.Report, filepath.Join(evaluated(dir), file)} {
		for _, docs := range []string{s.Docs, evaluated(s.Docs)} {
			if rel, err := filepath.Rel(docs, report); s.Docs != "" && err == nil && filepath.IsLocal(rel) {
				return filepath.ToSlash(rel)
			}
		}
	}
	return ""
}

var briefName = regexp.MustCompile(`^brief-[a-z0-9-]+\.md$`)

// written reports whether a file below the documents is what this workflow wrote, this
// run or one before: a brief must not be a source of the next.
func written(name, own string) bool {
	name = path.Clean(filepath.ToSlash(name))
	return name == own || briefName.MatchString(path.Base(name))
}

// withoutBriefs makes a search that does not find what this workflow wrote.
func withoutBriefs(search *tool.Tool, own string) *tool.Tool {
	return filtered(search, func() func(string) bool {
		skip := false
		return func(l string) bool {
			if head, ok := strings.CutPrefix(l, "## "); ok {
				skip = written(lineSuffix.ReplaceAllString(strings.TrimSpace(head), ""), own)
			}
			return skip
		}
	})
}

// grepWithoutBriefs is withoutBriefs for lines that begin with path:line:.
func grepWithoutBriefs(grep *tool.Tool, own string) *tool.Tool {
	return filtered(grep, func() func(string) bool {
		return func(l string) bool {
			m := matchLine.FindStringSubmatch(l)
			return len(m) > 1 && written(m[1], own)
		}
	})
}

var matchLine = regexp.MustCompile(`^(.+?):\d+:`)

// filtered leaves lines out of what a tool gives. Begin is called for every output.
func filtered(whole *tool.Tool, begin func() (skip func(line string) bool)) *tool.Tool {
	t := *whole
	t.Run = func(ctx context.Context, c *tool.Call) (string, error) {
		text, err := whole.Run(ctx, c)
		if err != nil {
			return "", err
		}
		var out strings.Builder
		skip := begin()
		for l := range strings.Lines(text) {
			if !skip(l) {
				out.WriteString(l)
			}
		}
		if text != "" && out.Len() == 0 {
			return "no place fits but briefs that were written from the other files", nil
		}
		return out.String(), nil
	}
	return &t
}

// readNoBriefs makes a reader of files that refuses what this workflow wrote.
func readNoBriefs(read *tool.Tool, own string) *tool.Tool {
	t := *read
	t.Run = func(ctx context.Context, c *tool.Call) (string, error) {
		var in struct{ Path string }
		if json.Unmarshal(c.Args, &in) == nil && written(in.Path, own) {
			return "", fmt.Errorf("path %s: is a brief that was written from the other files, and no source; read those", in.Path)
		}
		return read.Run(ctx, c)
	}
	return &t
}

// A Note is the event "note": something people should know.
type Note struct {
	Text string `json:"text"`
}
