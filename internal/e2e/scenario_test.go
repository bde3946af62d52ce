package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// notes looks around, writes a file, which needs a permission, and reads it again.
const notes = `name: notes
description: Writes a note about a topic.
inputs:
  - {name: topic, required: true}
steps:
  - id: look
    tool: glob
    args: {pattern: "*.md"}
  - id: draft
    depends_on: [look]
    value: '"About " + inputs.topic'
  - id: write
    depends_on: [draft]
    tool: write_file
    args: {path: note.md, content: "{{steps.draft.output}}\n"}
  - id: check
    depends_on: [write]
    tool: read_file
    args: {path: note.md}
output: "{{steps.check.output}}"
`

// An operator finds a run that another process executes, answers its permission request, sees it continue, forks it with an edited input, compares both and exports one.
func TestOperator(t *testing.T) {
	d := newDesk(t, map[string]string{".superstep/workflows/notes.yaml": notes}, nil)
	d.console()
	id := d.detached("notes", "-i", "topic=tides")

	p := d.open("/runs?tab=needs-you")
	p.has("#runs", "needs you") // it appears by itself
	p.click("#runs td.title a")
	p.has(".ask", "write_file")
	p.has(".ask .diff", "+About tides")
	p.has("#why", "Waiting for you: 1 question")
	get[int](p, "window.here = 1")
	p.click(`.ask button[value="once"], .ask button[value^="allow"], .ask .option button`)
	p.has("#run-head", "✓ completed")
	p.has("#run-head", "About tides")
	if get[int](p, "window.here || 0") != 1 {
		t.Error("the page was loaded anew")
	}
	if text := d.run("runs", "show", id, "-o", "json"); !strings.Contains(text, `"completed"`) {
		t.Errorf("the command line has %s", text)
	}

	// Fork it from where the note is written, with another draft.
	p.click(`#tasks a[href*="task=write"]`)
	p.has("#task-about", "write")
	p.click("#task-about details summary")
	p.fill(`#task-about textarea[name="set"]`, "draft=About storms")
	p.click(`#task-about details button`)
	p.has("main", "computed next: write")
	p.has(".command", "runs fork")
	p.click(`form[data-send] button.main`)
	p.has(".ask .diff", "+About storms")
	fork := strings.TrimPrefix(get[string](p, "location.pathname"), "/runs/")
	p.click(`.ask .option button`)
	p.has("#run-head", "✓ completed")
	p.has("#run-head", "About storms")

	// Compare the two.
	p.visit("/runs")
	for _, run := range []string{id, fork} {
		p.click(`input[value="` + run + `"]`)
	}
	p.click(`button[formaction="/diff"]`)
	p.has("main", "About tides")
	p.has("main", "About storms")
	p.has(".command", "runs diff")

	// Export one.
	p.visit("/runs/" + fork)
	text := get[string](p, `fetch(document.querySelector("a[href$='/export']").href).then(r => r.text())`)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Fatalf("%s", line)
		}
	}
	if len(lines) < 10 || !strings.Contains(text, "About storms") {
		t.Errorf("%d lines are exported: %s", len(lines), text)
	}
	p.clean()
}
