package tui

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/transcript/recorded"
	"github.com/superstep-dev/superstep/runlog"
)

// drawn is a graph of named boxes as it is drawn, from edges such as "a>b" and, on the critical path, "a>>b".
func drawnGraph(edges ...string) string {
	var names []string
	at := func(name string) int {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		return slices.Index(names, name)
	}
	var arcs []graphArc
	for _, e := range edges {
		from, to, _ := strings.Cut(e, ">")
		heavy := strings.HasPrefix(to, ">")
		arcs = append(arcs, graphArc{at(from), at(strings.TrimPrefix(to, ">")), heavy})
	}
	boxes := make([]graphBox, len(names))
	for i, n := range names {
		boxes[i].wide = len(n)
	}
	p := layGraph(boxes, arcs)
	var out strings.Builder
	for y := range p.h {
		var line strings.Builder
		for x := 0; x <= p.w; x++ {
			i := slices.IndexFunc(p.boxes, func(b graphBox) bool { return b.y == y && b.x <= x && x < b.x+b.wide })
			if i >= 0 {
				line.WriteByte(names[i][x-p.boxes[i].x])
			} else {
				line.WriteRune(p.char(x, y))
			}
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return out.String()
}

func TestGraphLayout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		edges []string
		want  string
	}{
		{[]string{"a>>b", "b>>c"}, "a ━━━ b ━━━ c\n"},
		{[]string{"plan>auth", "plan>>api", "plan>docs", "auth>brief", "api>>brief", "docs>brief"}, "" +
			"      ┌─ auth ─┐\n" +
			"plan ━┿━ api ━━┿━ brief\n" +
			"      └─ docs ─┘\n"},
		{[]string{"a>b", "b>c", "a>c"}, "" + // an edge passes a column
			"   ┌─ b ─┐\n" +
			"a ─┴─────┴─ c\n"},
		{[]string{"lead>next", "next>lead"}, "lead ─── next\n"}, // what leads back is not drawn
	} {
		if got := drawnGraph(c.edges...); got != c.want {
			t.Errorf("%v:\n%s\nwant\n%s", c.edges, got, c.want)
		}
	}
}

// No two boxes touch, every box is in the picture and right of what leads to it, and every edge begins and ends at its boxes.
func TestAnyGraphLayout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 14).Draw(t, "n")
		boxes := make([]graphBox, n)
		for i := range boxes {
			boxes[i].wide = rapid.IntRange(1, 9).Draw(t, "wide")
		}
		var arcs []graphArc
		for range rapid.IntRange(0, 3*n).Draw(t, "edges") {
			arcs = append(arcs, graphArc{rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to"), rapid.Bool().Draw(t, "heavy")})
		}
		p := layGraph(boxes, arcs)
		owner := map[[2]int]int{}
		for i, b := range p.boxes {
			for x := b.x - 1; x <= b.x+b.wide; x++ { // a cell is free at both sides
				if o, taken := owner[[2]int{x, b.y}]; taken && x >= b.x && x < b.x+b.wide {
					t.Fatalf("boxes %d and %d touch", i, o)
				}
				if x >= b.x && x < b.x+b.wide {
					owner[[2]int{x, b.y}] = i
				}
			}
			if b.x < 0 || b.y < 0 || b.x+b.wide > p.w || b.y >= p.h {
				t.Fatalf("box %d at %d,%d is outside of %d×%d", i, b.x, b.y, p.w, p.h)
			}
		}
		for at, i := range owner {
			if c := p.cell(at[0], at[1]); c.arms != [4]uint8{} {
				t.Fatalf("a line runs through box %d", i)
			}
		}
		for _, a := range forward(n, arcs) {
			from, to := p.boxes[a.from], p.boxes[a.to]
			if from.x+from.wide >= to.x {
				t.Fatalf("box %d is not left of %d", a.from, a.to)
			}
			if p.cell(from.x+from.wide+1, from.y).arms[armLeft] == 0 || p.cell(to.x-2, to.y).arms[armRight] == 0 {
				t.Fatalf("an edge from %d to %d does not reach both", a.from, a.to)
			}
		}
		for y := range p.h { // what leaves a cell arrives in the next
			for x := range p.w {
				c, right := p.cell(x, y), p.cell(x+1, y)
				_, box := owner[[2]int{x + 1, y}]
				_, gap := owner[[2]int{x + 2, y}]
				if c.arms[armRight] > 0 && right.arms[armLeft] == 0 && !box && !gap {
					t.Fatalf("a line ends at %d,%d", x, y)
				}
				if y+1 < p.h && (c.arms[armDown] > 0) != (p.cell(x, y+1).arms[armUp] > 0) {
					t.Fatalf("a line breaks off at %d,%d", x, y)
				}
			}
		}
	})
}

// graphOf is a graph page of the first records of a run.
func graphOf(t *testing.T, recs []runlog.Record) *graphPane {
	t.Helper()
	term := testTerminal(t, &engineBackend{})
	now := recs[len(recs)-1].Time
	term.opt.Now = func() time.Time { return now }
	f := &following{id: "7f3a21c0", loaded: true}
	for _, rec := range recs {
		f.run.Apply(rec)
	}
	term.runs[f.id], term.run = f, f
	term.view = newRunPane(term, f)
	term.showGraph()
	return term.top().(*graphPane)
}

func TestGraphScreens(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"agents", "failure", "question"} {
		recs := recorded.Load(name)
		for _, width := range []int{50, 60, 100, 160} {
			var b strings.Builder
			for _, n := range []int{len(recs) / 2, len(recs)} {
				fmt.Fprintf(&b, "[%d of %d]\n%s\n", n, len(recs), strings.Join(trimmed(graphOf(t, recs[:n]).draw(width, 14)), "\n"))
			}
			golden(t, filepath.Join("testdata", "graph", fmt.Sprintf("%s-%d.txt", name, width)), b.String())
		}
	}
}

// The selection walks in the picture, is that of the rows, and stays in sight where the picture is larger than the screen.
func TestGraphSelection(t *testing.T) {
	t.Parallel()
	recs := recorded.Load("agents")
	p := graphOf(t, recs[:len(recs)*3/4])
	p.draw(160, 14)
	press(t, p.t, "home", "right", "down")
	first := p.sel
	task := p.f.run.Task(first)
	if task == nil || task.Depth == 0 || p.view.sel != first {
		t.Fatalf("%q is selected here, %q there", first, p.view.sel)
	}
	press(t, p.t, "up")
	if p.sel == first {
		t.Error("up does not move")
	}
	for range 9 {
		press(t, p.t, "l")
		got := strings.Join(p.draw(62, 6), "\n")
		if !strings.Contains(got, "▸") {
			t.Errorf("%q is out of sight:\n%s", p.sel, got)
		}
	}
	press(t, p.t, "z")
	rows := len(p.items)
	press(t, p.t, "left", "z")
	if p.build(); len(p.items) == rows {
		t.Error("z does not collapse")
	}
	press(t, p.t, "enter")
	if _, ok := p.t.top().(*agentPane); !ok {
		t.Error("Enter opens no agent")
	}
}

// What runs longest is marked in the rows and named in the divider, where there is room.
func TestCriticalRow(t *testing.T) {
	t.Parallel()
	at := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	var recs []runlog.Record
	add := func(kind runlog.Kind, path, data string, after time.Duration) {
		at = at.Add(after)
		recs = append(recs, runlog.Record{Seq: uint64(len(recs) + 1), Kind: kind, Path: path, Data: json.RawMessage(data), Time: at})
	}
	add(runlog.KindRunStarted, "", `{"workflow":"w"}`, 0)
	add(runlog.KindSnapshot, "", `{"shape":{"nodes":[{"name":"plan"},{"name":"gather"},{"name":"brief"}],"edges":[{"from":"plan","to":"gather"},{"from":"gather","to":"brief"}]}}`, 0)
	add(runlog.KindTaskDone, "plan", `{"node":"plan","step":0,"sends":[{"to":"gather","key":"auth"},{"to":"gather","key":"api"}]}`, time.Second)
	add(runlog.KindStepCommitted, "", `{"step":0}`, 0)
	for _, key := range []string{"auth", "api"} {
		add(runlog.KindSettled, "gather["+key+"]", `{"key":"agent","kind":"agent","name":"researcher","input":{"prompt":"Look."}}`, 0)
	}
	add(runlog.KindTaskDone, "gather[auth]", `{"node":"gather","key":"auth","step":1}`, 2*time.Second)
	add(runlog.KindEvent, "gather[api]", `{"name":"note","data":{"text":"on"}}`, 9*time.Second)
	v := graphOf(t, recs).view
	got := strings.Join(v.draw(100, 20), "\n")
	for _, want := range []string{"critical path: api → brief", "gather/api", "← critical"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q:\n%s", want, got)
		}
	}
	for _, line := range strings.Split(got, "\n") {
		if strings.Contains(line, "critical") && strings.Contains(line, "auth") || ansi.StringWidth(line) > 100 {
			t.Errorf("%q", line)
		}
	}
	if narrow := strings.Join(v.draw(70, 20), "\n"); strings.Contains(narrow, "critical") {
		t.Errorf("no room for it:\n%s", narrow)
	}
	if (&transcript.Run{}).Critical(at) != nil {
		t.Error("an empty run has a critical path")
	}
}

// Forks from the graph: from the moment before a node, and of the node and what depends on it. The output of a node is shown.
func TestForkFromGraph(t *testing.T) {
	t.Parallel()
	term, b, id := written(t)
	press(t, term, "q")
	term.setFocus(onPane)
	press(t, term, "g", "home", "right", "o")
	shows(t, term, "OUTPUT of gather", `"two"`)
	press(t, term, "q", "r")
	shows(t, term, "FORK at record", "computed next: gather")
	press(t, term, "esc", "right", "f")
	shows(t, term, "after 2 supersteps", "computed next: write", "send in write")
	press(t, term, "enter")
	loaded(t, term)
	if term.run.id == id || term.run.run.Status != runlog.Completed || len(b.starts) != 2 {
		t.Errorf("run %s is %s", term.run.id, term.run.run.Status)
	}
	term.setFocus(onPane)
	press(t, term, "g")
	shows(t, term, "plan ↩ kept", "gather ↩ kept", "write ✓")
}
