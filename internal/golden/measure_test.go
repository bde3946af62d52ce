package golden_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/builtin/research"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/workflow"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// indexes are open indexes of documents, each opened once.
type indexes struct {
	mu   sync.Mutex
	open map[string]func() (*tool.Set, error)
}

// tool returns the tool search_docs over a folder.
func (x *indexes) tool(t *testing.T, dir string) (*tool.Set, error) {
	x.mu.Lock()
	if x.open == nil {
		x.open = map[string]func() (*tool.Set, error){}
	}
	if x.open[dir] == nil {
		x.open[dir] = sync.OnceValues(func() (*tool.Set, error) {
			policy, err := permit.New(nil)
			if err != nil {
				return nil, err
			}
			reads := func(name, from string) func(string) tool.Verdict { return policy.In(dir).Reads(name, from, nil) }
			may := reads("search_docs", "")
			docs, err := builtin.OpenDocs(t.Context(), dir, &builtin.DocsOptions{
				CacheDir: *cache, Excluded: func(file string) bool { return may(file).Decision != tool.Allow },
			})
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { docs.Close() })
			return tool.NewSet(builtin.SearchDocs(docs.Dir(), func(context.Context, bool) (*builtin.Docs, error) { return docs, nil }, reads))
		})
	}
	open := x.open[dir]
	x.mu.Unlock()
	return open()
}

var (
	found  = regexp.MustCompile(`^## (.+?):(\d+)-(\d+)(?:  .*)?$`)
	copies = regexp.MustCompile(`^\(also in (.*)\)$`)
	line   = regexp.MustCompile(`^\d+\t(.*)$`)
)

// places are what search_docs printed: passages, best first. Those that they are copies of are cited behind them.
func places(output string) (out []*passage) {
	for text := range strings.SplitSeq("\n"+output, "\n## ") {
		all := strings.Split("## "+text, "\n")
		m := found.FindStringSubmatch(all[0])
		if m == nil {
			continue
		}
		p := &passage{cites: cites(m[1]+":"+m[2]+"-"+m[3], nil)}
		for _, l := range all[1:] {
			if m := line.FindStringSubmatch(l); m != nil && strings.TrimSpace(m[1]) != "" {
				p.lines = append(p.lines, m[1])
			} else if m := copies.FindStringSubmatch(l); m != nil {
				p.cites = append(p.cites, cites(m[1], nil)...)
			}
		}
		out = append(out, p)
	}
	return out
}

// ranked says what the places are worth as an answer to a question about the documents in dir.
func ranked(q *question, dir string, found []*passage) *result {
	r := &result{q: q}
	for i, p := range found {
		text := normal(strings.Join(p.lines, "\n"))
		if r.first == "" {
			r.first = fmt.Sprintf("%s:%d %s", p.cites[0].path, p.cites[0].start, text)
		}
		if r.rank == 0 && q.answers(text, p.paths()...) {
			r.rank = i + 1
		}
		r.quotes(p, dir)
	}
	return r
}

// search is what search_docs finds for every question.
func search(t *testing.T) []*result {
	t.Helper()
	var x indexes
	return ask(t, func(ctx context.Context, q *question, dir string) (*result, error) {
		set, err := x.tool(t, dir)
		if err != nil {
			return nil, err
		}
		args, err := json.Marshal(map[string]any{"query": q.Question, "limit": 10})
		if err != nil {
			return nil, err
		}
		out := set.CallWhole(ctx, "search_docs", &tool.Call{Args: args})
		if out.Error {
			return nil, fmt.Errorf("search_docs: %s", out.Text)
		}
		return ranked(q, dir, places(out.Text)), nil
	})
}

// run gives the brief of the workflow on a question, without a language model, and whether it says that it answers it.
func run(ctx context.Context, question, docs, report string) (brief string, answered *bool, err error) {
	w, err := research.New(&research.Options{Model: func(string) (model.Model, error) { return offline.New(), nil }, CacheDir: *cache})
	if err != nil {
		return "", nil, err
	}
	inputs, err := json.Marshal(research.Inputs{Question: question, Docs: docs, Report: report, Model: offline.Name})
	if err != nil {
		return "", nil, err
	}
	j, err := journal.Open(ctx, runlog.NewMemory(nil), "r", &journal.Options{Create: &runlog.NewRun{Workflow: w.Name}})
	if err != nil {
		return "", nil, err
	}
	defer j.Close(ctx)
	res, err := w.Run(ctx, &workflow.Exec{Inputs: inputs, Journal: j, Graph: graph.RunOptions{Journal: j}})
	if err != nil {
		return "", nil, err
	}
	var out struct {
		Text     string `json:"text"`
		Answered *bool  `json:"answered"`
	}
	return out.Text, out.Answered, json.Unmarshal(res.Output, &out)
}

func atLeast(t *testing.T, what string, got, least float64) {
	t.Helper()
	if got < least {
		t.Errorf("%s is %.3f in the held half, want %.2f", what, got, least)
	}
}

// TestSearch measures search_docs alone.
func TestSearch(t *testing.T) {
	var b strings.Builder
	groups(search(t), func(name string, s *tally) {
		if s.answerable > 0 {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, of(s.at1, s.answerable), of(s.at3, s.answerable), of(s.at10, s.answerable), of(s.verbatim, s.lines))
		}
		if name == "**held**" {
			atLeast(t, "search@3", share(s.at3, s.answerable), least.search3)
			atLeast(t, "what is verbatim", share(s.verbatim, s.lines), least.verbatim)
		}
	})
	t.Logf("\n| | search@1 | @3 | @10 | verbatim |\n|---|---|---|---|---|\n%s", b.String())
}

// TestResearch measures the briefs.
func TestResearch(t *testing.T) {
	reports := t.TempDir()
	all := ask(t, func(ctx context.Context, q *question, dir string) (*result, error) {
		brief, answered, err := run(ctx, q.Question, dir, filepath.Join(reports, q.ID+".md"))
		if err != nil {
			return nil, err
		}
		return judge(q, dir, brief, answered), nil
	})
	var b strings.Builder
	groups(all, func(name string, s *tally) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %.2f | %s |\n", name, of(s.lead, s.answerable), of(s.brief, s.answerable),
			of(s.right, s.abstained), of(s.right, s.none), s.f1(), of(s.verbatim, s.lines))
		if name == "**held**" {
			atLeast(t, "lead", share(s.lead, s.answerable), least.lead)
			atLeast(t, "brief", share(s.brief, s.answerable), least.brief)
			atLeast(t, "F1 of abstention", s.f1(), least.f1)
			atLeast(t, "what is verbatim", share(s.verbatim, s.lines), least.verbatim)
		}
	})
	t.Logf("\n| | lead | brief | abstention: precision | recall | F1 | verbatim |\n|---|---|---|---|---|---|---|\n%s", b.String())
}

// TestPlaces holds that the output of search_docs is read.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "os/proc.go", "// Exit exits:\n// deferred functions\n// are not run.\n")
	q := &question{Expect: []place{{"os/*.go", "deferred functions are not run"}}}
	for _, c := range []struct {
		output string
		want   result // without question and first
	}{
		{"no place in \"x\" fits", result{}},
		{"## os/proc.go:2-3\n2\t// deferred functions\n3\t// are not run.\n\n", result{rank: 1, lines: 2, verbatim: 2}},
		{
			"No document has: winget.\n\n" +
				"## os/proc.go:1-1\n1\t// Exit exits:\n\n## os/proc.go:2-4  func Exit(code int)\n2\t// deferred functions\n3\t// are not run.\n4\t\n\n",
			result{rank: 2, lines: 3, verbatim: 3},
		},
		{"## copy.go:7-8\n7\tdeferred functions\n8\tare not run\n(also in os/proc.go:2-3, c.go:4)\n", result{rank: 1, lines: 2, verbatim: 2}},
		{
			"## copy.go:7-8\n7\tdeferred functions\n8\tare not run\n\n" +
				"## os/proc.go:1-2\n1\t// Exit exits: deferred functions are not run\n",
			result{rank: 2, lines: 3, altered: []string{"deferred functions", "are not run", "// Exit exits: deferred functions are not run"}},
		},
	} {
		got := ranked(q, dir, places(c.output))
		got.q, got.first = nil, ""
		if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s\n%+v, want %+v", c.output, *got, c.want)
		}
	}
}
