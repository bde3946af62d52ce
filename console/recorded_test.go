package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/transcript/recorded"
	"github.com/superstep-dev/superstep/runlog"
)

var update = flag.Bool("update", false, "write the golden pages again")

// pageOf is the page of a recorded session after some of its records, an hour after it began.
func pageOf(t *testing.T, recs []runlog.Record, task, tab string) *runPage {
	t.Helper()
	p := &runPage{
		s: plain(t), acts: true, id: "7f3a", task: task, tab: tab, r: &transcript.Run{}, progress: &draw.Progress{}, now: recs[len(recs)-1].Time.Add(time.Second),
		shape: func() (*svgShape, error) { return nil, errors.New("a recording has none") },
	}
	for _, rec := range recs {
		p.r.Apply(rec)
		p.progress.Apply(&rec)
	}
	return p
}

// plain is a console that only draws.
func plain(t *testing.T) *server {
	t.Helper()
	s := &server{opt: Options{Program: "superstep", Now: time.Now}}
	var err error
	if s.pages, err = templates(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func written(lists []list, only ...string) string {
	var b strings.Builder
	for _, l := range lists {
		if len(only) > 0 && !strings.Contains(strings.Join(only, " "), l.id) {
			continue
		}
		fmt.Fprintf(&b, "<!-- %s -->\n", l.id)
		for _, x := range l.pieces {
			b.WriteString(x.say() + "\n")
		}
	}
	return b.String()
}

// The recorded sessions are drawn as these pages: where they first ask or try again, and at their end with a task selected.
func TestRecorded(t *testing.T) {
	for _, name := range recorded.Names() {
		t.Run(name, func(t *testing.T) {
			recs := recorded.Load(name)
			var b strings.Builder
			r := &transcript.Run{}
			for i, rec := range recs {
				r.Apply(rec)
				if retrying := r.Retries > 0 || rec.Kind == runlog.KindEvent && strings.Contains(string(rec.Data), `"retry"`); len(r.Open()) > 0 || retrying {
					b.WriteString(written(pageOf(t, recs[:i+1], "", "trace").lists(), "head", "why", "asks", "tasks"))
					break
				}
			}
			task, most := "", -1
			for _, x := range r.Tasks {
				if len(x.Parts) > most {
					task, most = x.Path, len(x.Parts)
				}
			}
			for _, tab := range []string{"trace", "input", "tokens"} {
				p := pageOf(t, recs, task, tab)
				if tab == "trace" {
					b.WriteString(written(p.lists()))
				} else {
					b.WriteString(written(p.detail()))
				}
			}
			golden(t, filepath.Join("testdata", name+".html"), b.String())
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) == got {
		return
	}
	w, g := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range g {
		if i >= len(w) || w[i] != g[i] {
			t.Fatalf("%s:%d (write it with -update):\n%s\nwant\n%s", path, i+1, g[i], append(w, make([]string, len(g))...)[i])
		}
	}
	t.Fatalf("%s: it ends early", path)
}

var cell = regexp.MustCompile(`(?s)<td[^>]*>(.*?)</td>`)

// States, times and costs are those of `runs show -o json`, which reports the same fold; the terminal takes them from there, too.
func TestSameNumbers(t *testing.T) {
	tags := regexp.MustCompile(`<[^>]*>`)
	for _, name := range recorded.Names() {
		recs := recorded.Load(name)
		p := pageOf(t, recs, "", "trace")
		rows := map[string][]string{}
		for _, x := range p.tasks().pieces {
			var cells []string
			for _, m := range cell.FindAllStringSubmatch(x.say(), -1) {
				cells = append(cells, strings.TrimSpace(tags.ReplaceAllString(m[1], "")))
			}
			rows[x.id] = cells
		}
		seen := 0
		for _, step := range p.r.Report(p.now) {
			for _, want := range step.Tasks {
				row := rows[short("task-", want.Task)]
				if row == nil {
					t.Fatalf("%s: no row of %s", name, want.Task)
				}
				seen++
				state, cost := string(want.State), ""
				if state == "waiting" {
					state = "needs you"
				}
				if want.Usage.In+want.Usage.Out > 0 || len(p.r.Task(want.Task).Children) > 0 {
					cost = cmp.Or(want.Total, &want.Usage).Cost.String()
				}
				if row[1] != glyph(state)+" "+state || row[4] != inwords.Brief(time.Duration(want.Duration)*time.Millisecond) || strings.ReplaceAll(row[7], "&lt;", "<") != cost {
					t.Errorf("%s: %s is %q, want %s, %d ms, %s", name, want.Task, row, state, want.Duration, cost)
				}
			}
		}
		used := p.r.Used()
		head := p.head()
		for _, want := range []string{inwords.Count(used.In + used.Out), strings.ReplaceAll(used.Cost.String(), "<", "&lt;"), p.shown()} {
			if !strings.Contains(head, want) {
				t.Errorf("%s: the head lacks %s: %s", name, want, head)
			}
		}
		if seen == 0 {
			t.Errorf("%s: nothing was compared", name)
		}
	}
}

// The page of a run has the status that the list of runs has, wherever the run is, and buttons of a run that executes while it waits.
func TestSameStatus(t *testing.T) {
	runs := [][]runlog.Record{{{Seq: 1, Kind: runlog.KindRunStarted, Data: json.RawMessage(`{}`)}, {Seq: 2, Kind: runlog.KindTaskFailed, Path: "a", Data: json.RawMessage(`{"error":"busy","next_ms":60000}`)}}}
	for _, name := range recorded.Names() {
		runs = append(runs, recorded.Load(name))
	}
	seen := map[string]bool{}
	for _, recs := range runs {
		p := pageOf(t, recs[:1], "", "trace")
		for _, rec := range recs {
			p.r.Apply(rec)
			item := host.RunItem{Status: p.r.Status}
			if w := p.r.Wait(); w != nil {
				item.Waits = w.What
			}
			for _, q := range p.r.Open() {
				if summary.Asks(q.Kind) {
					item.Open++
				}
			}
			list := &runsPage{s: p.s}
			if want := list.row(item).State; p.shown() != want {
				t.Errorf("%s %d: the page says %q, the list %q", p.r.Title, rec.Seq, p.shown(), want)
			}
			if buttons := p.head(); p.r.Status == runlog.Running && !strings.Contains(buttons, "Pause") {
				t.Errorf("%s %d, %s: it cannot be paused: %s", p.r.Title, rec.Seq, p.shown(), buttons)
			}
			seen[p.shown()] = true
		}
	}
	if !seen["needs you"] || !seen["retrying"] || !seen["running"] || !seen["completed"] {
		t.Error("not all were compared:", seen)
	}
}
