// Package research is the built-in workflow "research": it answers a question from a
// folder of documents, or from the web, with a brief in which every citation has been
// checked against its source.
//
//	planner → explorer → researcher (one task per direction) → coverage ⟲ → synthesizer
//
// The planner turns the question into one or two broad queries, the explorer maps what the sources
// say into two to four directions, a researcher per direction collects passages, and, while there
// is a search budget left, the coverage check sends out again the researchers that found too
// little. The synthesizer weighs the findings and writes the brief.
//
// With a language model the nodes are agents, and the brief is prose over quotes that have been
// looked up in their sources. Without one (the model is "offline") they search by themselves, and
// the brief quotes the best passages, or states that none answers the question.
package research

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/docindex"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/workflow"
)

// Name is the name of the workflow.
const Name = "research"

// Options configure the workflow.
type Options struct {
	// Model returns the model of a name, and the one to use for "". It is required.
	Model func(name string) (model.Model, error)
	// Note returns the notice at the start of a run that leaves the choice of the model to Model,
	// such as the reason for the choice. If nil, or if it returns "", there is no notice.
	Note func() string
	// SearchWeb searches the web. Nil if it cannot be searched.
	SearchWeb *tool.Tool
	// Dir is the base of relative paths. The default is the process's working folder.
	Dir string
	// CacheDir is where indexes of documents are kept; defaults to the user's cache folder.
	CacheDir string
	// Embed returns a vector for each text, by which passages are ordered anew. Nil if there is no such model.
	Embed func(ctx context.Context, texts []string) ([][]float32, error)
	// Policy returns the rules on reading. They apply relative to the folder of documents and, if
	// that lies in the policy's root, also relative to the root. Files that may be read only with a
	// user's permission are not used as documents. The default is the rules of permit.New.
	Policy func() (*permit.Policy, error)
	// Guest bounds the runs of others than the user, as those of models and the queued ones of a store: they search a folder within Dir, and write a report
	// only where the rules allow write_file unasked.
	Guest bool
}

// Inputs are the inputs of the workflow.
type Inputs struct {
	Question    string `json:"question" jsonschema:"what to find out"`
	Docs        string `json:"docs,omitempty" jsonschema:"the folder of documents to search; needed unless TAVILY_API_KEY lets it search the web"`
	Model       string `json:"model,omitempty" jsonschema:"the model to use, as provider/name, or offline"`
	MaxSearches int    `json:"max_searches,omitempty" jsonschema:"the search budget; defaults to 6"`
	Report      string `json:"report,omitempty" jsonschema:"the file to write the brief to, or the folder for a brief-ID.md; by default it is kept with the run"`
	Guest       bool   `json:"guest,omitempty" jsonschema:"set by the run itself: somebody else than the user gave these inputs"`
}

// An Output is the output of the workflow.
type Output struct {
	Text       string       `json:"text"`           // the brief, in Markdown
	Docs       string       `json:"docs,omitempty"` // the folder of documents, by its absolute path
	Answered   bool         `json:"answered"`       // whether the sources answer the question
	Passages   []Passage    `json:"passages"`       // that the brief quotes, the answer first; one if it is not answered: the nearest
	Report     string       `json:"report"`         // the file it was written to; "" if it is only in the folder of the run
	Model      string       `json:"model"`
	Searches   int          `json:"searches"`
	Missing    []string     `json:"missing,omitempty"` // words of the question that no document has
	Dropped    int          `json:"dropped,omitempty"` // quotes that were not in their source
	Directions []OutputPart `json:"directions"`
}

// An OutputPart is a direction, and how many files and pages are about it.
type OutputPart struct {
	Topic   string `json:"topic"`
	Sources int    `json:"sources"`
}

// A DocsError reports that there is nothing to search, or that it cannot be.
type DocsError struct{ Why string }

func (e *DocsError) Error() string { return e.Why }

// FailureCode returns the code of runs that fail with the error.
func (e *DocsError) FailureCode() string { return "inputs" }

// New creates the workflow.
func New(opt *Options) (*workflow.Workflow, error) {
	if opt == nil || opt.Model == nil {
		return nil, errors.New("workflow research: it needs a way to get models")
	}
	w, err := workflow.Func(Name, "Answer a question from documents or the web, with checked citations",
		func(ctx context.Context, in Inputs, e *workflow.Exec) (Output, error) {
			r := &researcher{opt: opt}
			defer r.close()
			flow, err := r.flow()
			if err != nil {
				return Output{}, err
			}
			var begin state
			if info := e.Journal.Info(); e.Nested || info.Snapshot == 0 { // else the run continues with the state it has
				if err := imported(e.Journal.Imported(), in.Docs, in.Report); err != nil {
					return Output{}, err
				}
				in.Guest = in.Guest || e.Nested || info.IsChild()
				// Hosts may have begun the run without Prepare.
				if err := e.Journal.Afresh(func() error { return r.prepare(ctx, &in) }); err != nil {
					return Output{}, err
				}
				begin = state{Question: in.Question, Max: in.MaxSearches, Docs: in.Docs, Model: in.Model, Report: in.Report, Guest: in.Guest}
			}
			final, err := flow.Run(ctx, begin, &e.Graph)
			return final.output(), err
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
		in.Guest = false // callers say nothing of it
		if err := (&researcher{opt: opt}).prepare(context.Background(), &in); err != nil {
			return nil, err
		}
		return json.Marshal(in)
	}
	return w, nil
}

// prepare checks whether a run is possible, and adds to its inputs everything that depends on the
// place and time of its start. It may be called again with its own result.
func (r *researcher) prepare(ctx context.Context, in *Inputs) error {
	var problems []string
	in.Guest = in.Guest || r.opt.Guest
	if strings.TrimSpace(in.Question) == "" {
		problems = append(problems, "question: is empty; say what to find out")
	}
	if in.MaxSearches == 0 {
		in.MaxSearches = 6
	}
	if in.MaxSearches < 2 {
		problems = append(problems, fmt.Sprintf("max_searches: want at least 2 (one to explore, one to look into it), got %d", in.MaxSearches))
	}
	if in.Report == "-" {
		problems = append(problems, "report: - is no file, and the brief is written to standard output as it is; name a file or a folder, or leave --report out")
	}
	if problems != nil {
		return &workflow.InputsError{Workflow: Name, Problems: problems}
	}
	if in.Docs != "" {
		in.Docs = r.abs(in.Docs)
		if err := r.within(in.Guest, in.Docs); err != nil {
			return err
		}
		if info, err := os.Stat(in.Docs); err != nil {
			return &DocsError{fmt.Sprintf("the documents cannot be read: %v; give a folder with --docs", err)}
		} else if !info.IsDir() {
			return &DocsError{fmt.Sprintf("%s is a file; give the folder that it is in with --docs", in.Docs)}
		}
		if reads, err := r.reads(&state{Docs: in.Docs}); err != nil {
			return err
		} else if may := reads("search_docs", ""); !docindex.Has(ctx, in.Docs, func(file string) bool { return may(file).Decision != tool.Allow }) {
			return noDocs(in.Docs)
		}
	} else if r.opt.SearchWeb == nil {
		return &DocsError{"there is nothing to search; give a folder with --docs, or set TAVILY_API_KEY to search the web"}
	} else if web, err := r.web(nil); web == nil {
		return cmp.Or[error](err, &DocsError{"there is nothing to search: the rules do not allow web_search unasked; give a folder with --docs, or " + allowWeb})
	}
	if in.Report != "" {
		report := r.abs(in.Report)
		info, err := os.Stat(report)
		if os.IsPathSeparator(in.Report[len(in.Report)-1]) || err == nil && info.IsDir() {
			report = strings.TrimSuffix(report, string(filepath.Separator)) + string(filepath.Separator) // a folder
		}
		if err := writable(filepath.Dir(report)); err != nil {
			return &workflow.InputsError{Workflow: Name, Problems: []string{fmt.Sprintf("report: %v; choose another place with --report", err)}}
		}
		if err := r.mayWrite(in.Guest, report); err != nil {
			return &workflow.InputsError{Workflow: Name, Problems: []string{"report: " + err.Error()}}
		}
		in.Report = report
	}
	m, err := r.opt.Model(in.Model)
	if err != nil {
		return err
	}
	in.Model = m.Name()
	return nil
}

// within returns an error if a guest names a folder outside the one that the host works in.
func (r *researcher) within(guest bool, docs string) error {
	if !guest || inside(r.abs("."), docs) {
		return nil
	}
	return &DocsError{fmt.Sprintf("%s lies outside %s; only you can search such a folder, with %s on the command line", docs, r.abs("."), "--docs")}
}

// mayWrite returns an error if a guest may not write a file unasked.
func (r *researcher) mayWrite(guest bool, file string) error {
	if !guest {
		return nil
	}
	policy, err := r.policy()
	if err != nil {
		return err
	}
	args, err := json.Marshal(map[string]string{"path": file, "content": ""})
	if err != nil {
		return err
	}
	if inside(r.abs("."), file) && policy.Check(&tool.Tool{Name: "write_file"}, &tool.Call{Args: args}).Decision == tool.Allow {
		return nil
	}
	return fmt.Errorf("nobody has allowed agents to write %s; leave it out, since the brief is kept with the run, or allow write_file there", file)
}

// file returns where a run writes its report: in a folder each run has its own file, so that a fork
// does not overwrite its parent's report.
func (s *state) file(run string) string {
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

func (s *state) output() Output {
	out := Output{
		Text: s.Brief, Docs: s.Docs, Answered: s.Answered, Passages: append([]Passage{}, s.Quoted...), Report: s.Report, Model: s.Model,
		Searches: s.Searches, Missing: s.Missing, Dropped: s.Dropped, Directions: []OutputPart{},
	}
	for _, d := range s.Directions {
		out.Directions = append(out.Directions, OutputPart{d.Topic, len(s.sources(d.Key))})
	}
	return out
}

// A progress is the live event "progress": how far a long operation is.
type progress struct {
	Text string `json:"text"`
	Done int    `json:"done"`
	All  int    `json:"all"`
}

// A note is the event "note", for users.
type note struct {
	Text string `json:"text"`
}
