package draw_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/draw"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; look at what -update makes of it. Got:\n%s", file, got)
	}
}

func nodes(names ...string) []graph.ShapeNode {
	var out []graph.ShapeNode
	for _, n := range names {
		out = append(out, graph.ShapeNode{Name: n})
	}
	return out
}

// edges reads "from to kind" per line.
func edges(lines string) []graph.ShapeEdge {
	var out []graph.ShapeEdge
	for l := range strings.Lines(lines) {
		if f := strings.Fields(l); len(f) > 1 {
			out = append(out, graph.ShapeEdge{From: f[0], To: f[1], Kind: strings.Join(f[2:], " ")})
		}
	}
	return out
}

func brief() graph.Shape {
	return graph.Shape{Nodes: nodes("search", "write"), Edges: edges("@start search\nsearch search branch\nsearch write branch\nwrite @end")}
}

func research() graph.Shape {
	dig := graph.Shape{
		Nodes: []graph.ShapeNode{{Name: "plan"}, {Name: "read", Kind: "tool"}, {Name: "judge"}},
		Edges: edges("@start plan\nplan read fan\nread judge\njudge plan branch\njudge @end branch"),
	}
	return graph.Shape{
		Nodes: []graph.ShapeNode{
			{Name: "plan", Kind: "agent"},
			{Name: "dig", Kind: "sub", Sub: &dig},
			{Name: "approve", Kind: "ask"},
			{Name: "fact-check", Kind: "tool", OnError: "skip"},
			{Name: "draft", Kind: "agent", Join: "quorum 2", Reads: []string{"notes", "topic"}},
			{Name: "review"},
			{Name: "rescue", OnError: "abort"},
			{Name: "publish"},
		},
		Edges: edges(`@start plan
			plan dig
			plan approve
			plan fact-check fan
			dig draft
			approve draft
			fact-check draft
			draft review
			review draft branch
			review publish branch
			review plan branch
			dig rescue catch
			publish rescue catch
			publish plan send
			rescue @end
			publish @end`),
	}
}

func hostile() graph.Shape {
	inner := graph.Shape{Nodes: nodes("end", "a/b"), Edges: edges("@start end\nend a/b\na/b @end")}
	s := graph.Shape{Nodes: nodes("with-dash", "with_dash", "with.dash", "end", "subgraph", "__proto__", `a"]; click b`, "<script>alert(1)</script>",
		"two\nlines", "1. list", "- item", "`x` **b** __i__", "#35; &lt; &amp; %%{init}%%", "日本語", `back\slash\N\`, "o", "", "\x1b[31mred\x00\u202e",
		"a-very-long-name-that-goes-on-and-on.until_somebody_stops_it.and-even-longer-than-that", "with-dash")}
	s.Nodes = append(s.Nodes, graph.ShapeNode{Name: "class", Sub: &inner, Kind: "<b>", Join: `"all"`})
	from := graph.Start
	for i, n := range s.Nodes {
		s.Edges = append(s.Edges, graph.ShapeEdge{From: from, To: n.Name, Kind: []string{"", "branch", `<"x"|>`}[i%3]})
		from = n.Name
	}
	s.Edges = append(s.Edges, edges("class class branch\nclass ghost catch\nghost @end\nend end\nend end\nwith-dash end send")...)
	return s
}

func TestGolden(t *testing.T) {
	t.Parallel()
	status := map[string]draw.NodeStatus{
		"plan":       {State: "done", Visits: 1, Done: 1},
		"dig":        {State: "running", Visits: 1},
		"dig/plan":   {State: "done", Visits: 2, Done: 2},
		"dig/read":   {State: "running", Visits: 12, Done: 5, Failures: 2},
		"approve":    {State: "waiting", Visits: 1},
		"fact-check": {State: "skipped", Visits: 1, Failures: 3},
		"publish":    {State: "failed", Visits: 1, Failures: 1},
		"no-node":    {State: "failed"},
	}
	for _, c := range []struct {
		name  string
		shape graph.Shape
		opt   *draw.Options
	}{
		{"brief", brief(), nil},
		{"research", research(), &draw.Options{Title: "Research & brief", Status: status}},
		{"across", research(), &draw.Options{LeftRight: true, Status: map[string]draw.NodeStatus{}}},
		{"closed", research(), &draw.Options{Closed: true}},
		{"hostile", hostile(), &draw.Options{Title: `A "title" <b> \ %%{init: {}}%% #quot; ---`}},
		{"empty", graph.Shape{}, &draw.Options{Title: "Nothing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			golden(t, c.name+".txt", draw.Text(c.shape, c.opt))
			golden(t, c.name+".mmd", draw.Mermaid(c.shape, c.opt))
			golden(t, c.name+".dot", draw.DOT(c.shape, c.opt))
			golden(t, c.name+".svg", string(draw.SVG(c.shape, c.opt)))
		})
	}
}

func TestMermaidIDs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names []string
		want  []string
	}{
		{[]string{"with-dash"}, []string{"with_dash"}},
		{[]string{"with-dash", "with_dash", "with.dash"}, []string{"with_dash", "with_dash_2", "with_dash_3"}},
		{[]string{"a_1", "a", "a-1"}, []string{"a_1", "a", "a_1_2"}},
		{[]string{"a-", "a_", "a__2", "a."}, []string{"a_", "a__2", "a__2_2", "a__3"}},
		{[]string{"end", "End", "graph", "constructor", ""}, []string{"end_", "End_", "graph_", "constructor_", "_"}},
		{[]string{"é"}, []string{"_"}},
	} {
		got := draw.Mermaid(graph.Shape{Nodes: nodes(c.names...)}, nil)
		var ids []string
		for l := range strings.Lines(got) {
			if id, _, ok := strings.Cut(strings.TrimSpace(l), "["); ok {
				ids = append(ids, id)
			}
		}
		if !slices.Equal(ids, c.want) {
			t.Errorf("the ids of %q are %q, want %q", c.names, ids, c.want)
		}
	}
}

// A shape that holds itself, which nothing that was compiled does, is drawn all the same.
func TestEndlessShape(t *testing.T) {
	t.Parallel()
	s := graph.Shape{Nodes: nodes("again")}
	s.Nodes[0].Sub = &s
	if n := strings.Count(draw.Text(s, nil), "again (sub-graph)"); n != 17 {
		t.Errorf("it is drawn %d times, want 17", n)
	}
}

// What passes many layers must not make a picture grow with the square of the graph.
func TestLargePictures(t *testing.T) {
	t.Parallel()
	const n = 10000
	var chain, star graph.Shape
	star.Nodes = nodes("hub")
	for i := range n {
		name := fmt.Sprint("n", i)
		chain.Nodes, star.Nodes = append(chain.Nodes, graph.ShapeNode{Name: name}), append(star.Nodes, graph.ShapeNode{Name: name})
		chain.Edges = append(chain.Edges, graph.ShapeEdge{From: name, To: graph.End, Kind: "catch"}, graph.ShapeEdge{From: name, To: fmt.Sprint("n", min(i+1, n-1))})
		star.Edges = append(star.Edges, graph.ShapeEdge{From: "hub", To: name, Kind: "fan"}, graph.ShapeEdge{From: name, To: "hub", Kind: "branch"})
	}
	for name, s := range map[string]graph.Shape{"chain": chain, "star": star} {
		if got := len(draw.SVG(s, nil)); got > 1500*n {
			t.Errorf("%s: the picture has %d bytes for %d nodes", name, got, n)
		}
	}
}

func BenchmarkSVG(b *testing.B) {
	for _, n := range []int{50, 1000, 10000} {
		var s graph.Shape
		for i := range n {
			s.Nodes = append(s.Nodes, graph.ShapeNode{Name: fmt.Sprint("node-", i)})
			if i > 0 {
				s.Edges = append(s.Edges, graph.ShapeEdge{From: s.Nodes[i-1-(i*7919)%min(i, 12)].Name, To: s.Nodes[i].Name})
			}
			if i%5 == 0 {
				s.Edges = append(s.Edges, graph.ShapeEdge{From: s.Nodes[i].Name, To: s.Nodes[(i*31)%(i+1)].Name, Kind: "branch"})
			}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				draw.SVG(s, nil)
			}
		})
	}
}

// shapes are shapes as no compiler would let them pass.
func shapes(depth int) *rapid.Generator[graph.Shape] {
	name := rapid.OneOf(rapid.StringMatching(`[a-c][-_.]?[a-c]?`), rapid.SampledFrom([]string{"end", "<b>", `"`, `\`, "]]>", "&lt;", "x\ny", "\x00\xff"}), rapid.String())
	return rapid.Custom(func(t *rapid.T) graph.Shape {
		var s graph.Shape
		for _, n := range rapid.SliceOfNDistinct(name, 0, 8, rapid.ID[string]).Draw(t, "names") {
			sn := graph.ShapeNode{Name: n, Join: rapid.SampledFrom([]string{"", "all", "quorum 2", "<"}).Draw(t, "join")}
			sn.Kind = rapid.SampledFrom([]string{"", "agent", "tool", "ask", "decision", "sub", "a<b"}).Draw(t, "kind")
			if depth > 0 && rapid.IntRange(0, 4).Draw(t, "nests") == 0 {
				sub := shapes(depth-1).Draw(t, "sub")
				sn.Sub = &sub
			}
			s.Nodes = append(s.Nodes, sn)
		}
		all := []string{graph.Start, graph.End}
		for _, n := range s.Nodes {
			all = append(all, n.Name)
		}
		for range rapid.IntRange(0, 14).Draw(t, "edges") {
			s.Edges = append(s.Edges, graph.ShapeEdge{
				From: rapid.SampledFrom(all).Draw(t, "from"), To: rapid.SampledFrom(all).Draw(t, "to"),
				Kind: rapid.SampledFrom([]string{"", "branch", "fan", "catch", "send", "<i>"}).Draw(t, "kind"),
			})
		}
		return s
	})
}

// paths lists the paths of all nodes, as XML can hold them.
func paths(s *graph.Shape, prefix string) []string {
	var out []string
	for _, n := range s.Nodes {
		if n.Name == graph.Start || n.Name == graph.End {
			continue
		}
		var b bytes.Buffer
		xml.EscapeText(&b, []byte(prefix+n.Name))
		var held struct {
			Path string `xml:",chardata"`
		}
		if err := xml.Unmarshal([]byte("<a>"+b.String()+"</a>"), &held); err != nil {
			panic(err)
		}
		out = append(out, held.Path)
		if n.Sub != nil {
			out = append(out, paths(n.Sub, prefix+n.Name+"/")...)
		}
	}
	return out
}

func TestAnyShape(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := shapes(2).Draw(t, "shape")
		opt := &draw.Options{Title: rapid.String().Draw(t, "title"), LeftRight: rapid.Bool().Draw(t, "across")}
		if rapid.Bool().Draw(t, "states") {
			opt.Status = map[string]draw.NodeStatus{}
			for i, n := range s.Nodes {
				opt.Status[n.Name] = draw.NodeStatus{State: []string{"", "running", "waiting", "done", "skipped", "caught", "failed", "an <unknown>\n\"state\""}[i%8], Visits: i, Done: i / 2, Failures: i % 3}
			}
		}
		svg := draw.SVG(s, opt)
		if again := draw.SVG(s, opt); !bytes.Equal(svg, again) {
			t.Fatal("two pictures of the same shape differ")
		}
		checkSVG(t, &s, svg)
		var texts [2][3]string
		for i := range texts {
			texts[i] = [3]string{draw.Mermaid(s, opt), draw.DOT(s, opt), draw.Text(s, opt)}
		}
		if texts[0] != texts[1] {
			t.Fatal("two texts of the same shape differ")
		}
		checkMermaid(t, &s, texts[0][0])
		checkDOT(t, texts[0][1])
	})
}

func checkSVG(t *rapid.T, s *graph.Shape, svg []byte) {
	known := []string{"svg", "title", "desc", "style", "rect", "defs", "marker", "path", "polygon", "g", "text"}
	var got []string
	ids := map[string]bool{}
	dec := xml.NewDecoder(bytes.NewReader(svg))
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("it is no XML: %v\n%s", err, svg)
		}
		e, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		if !slices.Contains(known, e.Name.Local) {
			t.Fatalf("there is an element <%s>", e.Name.Local)
		}
		for _, a := range e.Attr {
			switch {
			case a.Name.Local == "data-path":
				got = append(got, a.Value)
			case a.Name.Local == "id" && ids[a.Value]:
				t.Fatalf("the id %q is there twice", a.Value)
			case a.Name.Local == "id":
				ids[a.Value] = true
			case strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf"):
				t.Fatalf("%s is %s", a.Name.Local, a.Value)
			case a.Name.Local == "href" || strings.HasPrefix(a.Name.Local, "on"):
				t.Fatalf("there is an attribute %s", a.Name.Local)
			}
		}
	}
	want := paths(s, "")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("the picture has the nodes %q, want %q", got, want)
	}
}

func checkMermaid(t *rapid.T, s *graph.Shape, text string) {
	_, body, _ := strings.Cut(text, "flowchart ")
	ids := map[string]bool{}
	declared := 0
	for l := range strings.Lines(body) {
		rest := strings.ReplaceAll(l, "<br/>", "")
		if strings.Contains(rest, "<") || strings.Count(l, `"`)%2 != 0 {
			t.Fatalf("a name is in the line %q as it is", l)
		}
		l = strings.TrimSpace(l)
		if strings.Contains(l, ":::") || strings.HasPrefix(l, "subgraph ") {
			l = strings.TrimPrefix(l, "subgraph ")
			id := l[:strings.IndexAny(l, "[({")]
			if ids[id] || id == "end" {
				t.Fatalf("the id %q is there twice, or means something", id)
			}
			ids[id] = true
			if !strings.HasSuffix(l, ":::terminal") {
				declared++
			}
		}
	}
	if want := len(paths(s, "")); declared != want {
		t.Fatalf("there are %d nodes, want %d:\n%s", declared, want, text)
	}
}

// checkDOT reads all strings, between which there may be only what the format puts there.
func checkDOT(t *rapid.T, text string) {
	var outside strings.Builder
	in := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case in && c == '\\':
			i++
			if !strings.ContainsRune(`\"n`, rune(text[i])) {
				t.Fatalf("there is an escape \\%c", text[i])
			}
		case c == '"':
			in = !in
		case !in:
			outside.WriteByte(c)
		case c == '\n':
			t.Fatal("a string has a line break")
		}
	}
	if in {
		t.Fatal("a string does not end")
	}
	allowed := "digraph subgraph graph node edge rankdir=TB LR compound=true bgcolor fontname fontsize=10 color label labelloc shape box oval hexagon diamond parallelogram style fillcolor fontcolor penwidth=3 peripheries=2 ltail lhead constraint=false"
	for _, word := range strings.FieldsFunc(outside.String(), func(r rune) bool { return strings.ContainsRune(" \n[]{};,=->", r) }) {
		if !strings.Contains(allowed, word) {
			t.Fatalf("there is %q outside of strings", word)
		}
	}
}
