package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/superstep-dev/superstep/internal/npm"
)

const (
	survey = `name: survey
description: Asks what to write, and for whom.
steps:
  - {id: look, tool: glob, args: {pattern: "*.md"}}
  - id: audience
    depends_on: [look]
    ask: {question: "Who reads the brief?", options: [{label: engineers, description: they know the code}, managers], default: engineers}
  - id: details
    ask:
      question: What else matters?
      form:
        - {name: pages, type: integer, default: 2, description: at most}
        - {name: tone, enum: [plain, formal], required: true}
output: "{{steps.audience.output}}"
`
	part = `name: part
description: One of its steps fails, and what follows has the text of the error.
steps:
  - {id: good, tool: glob, args: {pattern: "*.md"}}
  - {id: bad, tool: read_file, args: {path: gone.md}, depends_on: [good]}
  - {id: after, tool: glob, args: {pattern: "{{steps.bad.output}}"}, depends_on: [bad]}
  - {id: apart, tool: read_file, args: {path: README.md}}
output: "{{steps.apart.output}}"
`
	failing = `name: failing
description: Its only way fails.
steps:
  - {id: look, tool: glob, args: {pattern: "*.md"}}
  - {id: read, tool: read_file, args: {path: gone.md}, depends_on: [look], on_error: fail}
output: "{{steps.read.output}}"
`
	broken = `name: broken
description: Has a mistake.
steps:
  - id: plan
    tool: glob
    args: {pattern: "*.md"}
  - id: write
    depends_on: [plam]
    tool: glob
    args: {pattern: "*.md"}
`
)

// wide is a recipe of many steps, ten beside each other.
func wide(steps int) string {
	var b strings.Builder
	b.WriteString("name: wide\ndescription: Has many steps.\nsteps:\n")
	for i := range steps {
		fmt.Fprintf(&b, "  - {id: s%d, value: '%d'", i, i)
		if i >= 10 {
			fmt.Fprintf(&b, ", depends_on: [s%d, s%d]", i-10, i-10+(i+1)%10-i%10)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// gallery is a desk with runs in every state, whose pages it returns by name. Runs of nodes is how large the graph is.
func gallery(t *testing.T, nodes int) (*desk, [][2]string) {
	t.Helper()
	d := newDesk(t, map[string]string{
		".superstep/workflows/notes.yaml": notes, ".superstep/workflows/survey.yaml": survey, ".superstep/workflows/part.yaml": part,
		".superstep/workflows/failing.yaml": failing, ".superstep/workflows/broken.yaml": broken, ".superstep/workflows/wide.yaml": wide(nodes),
		".superstep/agents/scribe.md": "---\nname: scribe\ndescription: Writes notes.\ntools: [read_file, glob]\n---\nYou write notes.\n",
	}, nil)
	runs := map[string]string{}
	for _, args := range [][]string{
		{"permission", "notes", "-i", "topic=tides", "--on-ask", "wait"}, {"question", "survey", "--on-ask", "ask"}, {"partial", "part"}, {"failed", "failing"}, {"wide", "wide"},
		{"done", "notes", "-i", "topic=tides", "--allow", "write_file"},
	} {
		d.run(append([]string{"run"}, args[1:]...)...)
		var list []struct{ ID string }
		out := d.run("runs", "list", "-o", "json")
		if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) == 0 {
			t.Fatal(err, out)
		}
		runs[args[0]] = "/runs/" + list[0].ID
	}
	pages := append(record(t, d), [][2]string{
		{"runs", "/runs"}, {"runs-none", "/runs?tab=retrying"}, {"permission", runs["permission"]}, {"question", runs["question"]}, {"partial", runs["partial"]}, {"failed", runs["failed"]},
		{"wide", runs["wide"]}, {"task", runs["done"] + "?task=write"}, {"task-input", runs["done"] + "?task=write&tab=input"}, {"task-output", runs["done"] + "?task=check&tab=output"},
		{"task-tokens", "/runs/rec-agents?task=gather[tests]&tab=tokens"}, {"task-error", runs["partial"] + "?task=after"}, {"at", runs["done"] + "?at=9"}, {"history", runs["done"] + "/history"},
		{"fork", runs["done"] + "/fork?from=write"}, {"definition", runs["done"] + "/definition"}, {"records", runs["done"] + "/records"},
		{"diff", "/diff?a=" + strings.TrimPrefix(runs["done"], "/runs/") + "&b=" + strings.TrimPrefix(runs["permission"], "/runs/")}, {"chats", "/chats"},
		{"workflows", "/workflows"}, {"workflow", "/workflows/notes"}, {"workflow-broken", "/workflows/broken"}, {"workflow-research", "/workflows/research-and-brief"},
		{"agents", "/agents"}, {"agent", "/agents/scribe"}, {"tools", "/tools"}, {"tool", "/tools/bash"}, {"skills", "/skills"}, {"settings", "/settings"}, {"absent", "/runs/none"},
	}...)
	d.console()
	return d, pages
}

// record imports the recorded sessions into the store of a desk, and returns the addresses of their pages by name.
func record(t *testing.T, d *desk) [][2]string {
	t.Helper()
	files, err := filepath.Glob("../transcript/recorded/testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var pages [][2]string
	for _, file := range files {
		if os.Getenv("SUPERSTEP_SHOTS") == "" && !slices.Contains([]string{"agents.jsonl", "retry.jsonl", "compaction.jsonl"}, filepath.Base(file)) {
			continue // they are made of the same pieces
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, status, n := strings.TrimSuffix(filepath.Base(file), ".jsonl"), "paused", 0
		var b bytes.Buffer
		var last string
		body := &bytes.Buffer{}
		for line := range bytes.Lines(text) {
			var rec struct {
				Seq        uint64
				Kind, Time string
			}
			if err := json.Unmarshal(line, &rec); err != nil {
				t.Fatal(err)
			}
			if rec.Seq == 0 {
				continue // it was only live
			}
			if n++; rec.Kind == "run.finished" {
				status = "completed"
			}
			last = rec.Time
			body.Write(line)
		}
		fmt.Fprintf(&b, `{"superstep":"run","version":1,"run":{"id":"rec-%s","workflow":"recorded","title":"recorded: %[1]s","status":%q,"created":%q,"updated":%[3]q}}`+"\n%s", name, status, last, body)
		fmt.Fprintf(&b, `{"end":true,"records":%d,"digest":"sha256:%x"}`+"\n", n, sha256.Sum256(b.Bytes()))
		d.write(name+".export", b.String())
		d.run("runs", "import", name+".export")
		pages = append(pages, [2]string{"recorded-" + name, "/runs/rec-" + name})
	}
	return pages
}

// axe finds what is wrong for people who do not see or point: https://github.com/dequelabs/axe-core.
const axe = `axe.run(document, {runOnly: %s, resultTypes: ["violations"]}).then(r => r.violations.map(v =>
	v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.failureSummary.replaceAll("\n", " ").slice(0, 200)).join(" | ")))`

// Every page is accessible in light and dark, fits its window, and has nothing that the policy for contents stops. SUPERSTEP_SHOTS=DIR takes a picture of each.
func TestPages(t *testing.T) {
	t.Parallel()
	shots := os.Getenv("SUPERSTEP_SHOTS")
	d, pages := gallery(t, map[bool]int{true: 500, false: 60}[shots != ""])
	source, err := os.ReadFile(filepath.Join(npm.Package(t, "axe-core@4.14.1", "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="), "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	p := d.open("/runs")
	shot := func(name string) {
		if shots == "" {
			return
		}
		b, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(shots, name+".png"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	only := os.Getenv("SUPERSTEP_PAGES")
	for _, x := range pages {
		name, path := x[0], x[1]
		if only != "" && !strings.Contains(","+only+",", ","+name+",") {
			continue
		}
		p.screen(1440, 1000)
		p.prefers("prefers-color-scheme", "light")
		p.visit(path)
		p.wait(`document.readyState === "complete" && document.querySelector("main h1")`)
		p.clean()
		get[bool](p, string(source)+"; true")
		for _, scheme := range []string{"light", "dark"} {
			p.prefers("prefers-color-scheme", scheme)
			rules := map[string]string{"light": `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`, "dark": `{type: "rule", values: ["color-contrast"]}`}[scheme]
			for _, found := range get[[]string](p, fmt.Sprintf(axe, rules)) {
				t.Errorf("%s, %s: %s", name, scheme, found)
			}
			shot(name + "-1440-" + scheme)
		}
		p.prefers("prefers-color-scheme", "light")
		for _, width := range []int64{1024, 720, 390} { // 720 is what 200 % leaves of 1440
			p.screen(width, 844)
			if over := get[int](p, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("%s is %d pixels too wide for %d: %s", name, over, width, get[string](p, `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, pre, svg, .sr")).slice(0, 3).map(e => e.outerHTML.slice(0, 120)).join(" | ")`))
			}
			if width != 720 {
				shot(fmt.Sprint(name, "-", width, "-light"))
			}
		}
	}
}
