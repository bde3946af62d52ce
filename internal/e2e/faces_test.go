package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// Forms work in a browser that executes no scripts, such as one that could not load ours.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{".superstep/workflows/asky.yaml": `name: asky
steps: [{id: who, ask: {question: "Who reads it?", options: [engineers, managers]}}]
output: "for {{steps.who.output}}"
`}, nil)
	d.console()
	id := d.detached("asky")
	p := d.open("/runs", chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
	show := func(words string) { // the page does not change by itself
		t.Helper()
		for range 100 {
			p.do(chromedp.Navigate(d.url + "/runs/" + id))
			if get[bool](p, `document.body.innerText.includes("`+words+`")`) {
				return
			}
		}
		t.Fatalf("the page never has %q\n%s", words, p.see())
	}
	show("Who reads it?")
	if get[string](p, `String(window.trusted)`) != "undefined" {
		t.Fatal("scripts are executed")
	}
	p.do(chromedp.Click(chromedp.CSS(`.ask button[value="engineers"]`)))
	p.wait(`document.readyState === "complete" && !document.querySelector(".ask button")`)
	show("for engineers")
}

// The node of the running step is drawn as running, also on a page that is opened meanwhile, and one that ran on an error is not plain green.
func TestGraphShowsWhatRuns(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{".superstep/workflows/slow.yaml": `name: slow
steps:
  - {id: first, tool: bash, args: {command: "echo one"}}
  - {id: bad, tool: bash, args: {command: "exit 3"}, on_error: continue, depends_on: [first]}
  - {id: second, tool: bash, args: {command: "until test -e go; do sleep 0.05; done"}, depends_on: [bad]}
  - {id: third, tool: bash, args: {command: "echo three"}, depends_on: [second]}
`}, nil)
	d.console()
	id := d.detached("slow", "--allow", "bash(*)")
	node := func(name string) string { return `#run-graph [data-path="` + name + `"]` }
	for range 2 { // followed, and opened anew
		p := d.open("/runs/" + id)
		p.has(node("second"), "running")
		p.has(node("first"), "done")
		p.has(node("third"), "pending")
	}
	if err := os.WriteFile(filepath.Join(d.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := d.open("/runs/" + id)
	p.has(node("third"), "done")
	p.has(node("second"), "partly")
}
