package e2e

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/superstep-dev/superstep/internal/modeltest"
)

// view is what a page says, with the slider of its records and without the times that grow.
const view = `[...document.querySelectorAll("#head,#why,#asks,#graph .node,#timeline .name,#tasks,#detail,#parts")].map((e) => {
	const c = e.cloneNode(true); c.querySelectorAll("time").forEach((t) => t.remove()); return c.textContent.replace(/\s+/g, " "); }).join("\n") +
	((s) => s ? "\nrecord " + s.value + " of " + s.max : "")(document.querySelector("[data-scrub] input"))`

// A reload at any moment shows what the page showed, also after the console was killed, which affects no run.
func TestReload(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{".superstep/workflows/notes.yaml": notes}, nil)
	d.console()
	id := d.detached("notes", "-i", "topic=tides")
	p := d.open("/runs/" + id + "?task=write")
	same := func(when string) string {
		t.Helper()
		live := get[string](p, view)
		p.clean()
		p.do(chromedp.Reload())
		p.wait(`document.readyState === "complete" && document.querySelector("#run-head")`)
		if again := get[string](p, view); again != live {
			t.Errorf("%s: live is\n%s\na reload shows\n%s", when, live, again)
		}
		return live
	}
	p.has("#asks", "write_file")
	p.has("#tasks", "needs you")
	same("while it waits")
	d.stop()
	d.console()
	if strings.Contains(d.run("runs", "show", id, "-o", "json"), "interrupted") {
		t.Error("the run was interrupted with the console")
	}
	p = d.open("/runs/" + id + "?task=write")
	p.has("#asks", "write_file")
	p.click(`.ask .option button`)
	p.has("#run-head", "✓ completed")
	p.has("#tasks", "check")
	done := same("after its end")
	d.stop()
	d.console()
	if p = d.open("/runs/" + id + "?task=write"); get[string](p, view) != done {
		t.Errorf("another console shows\n%s\nwant\n%s", get[string](p, view), done)
	}
}

// relay is a network between the browser and a console, that can be cut.
type relay struct {
	to    string
	mu    sync.Mutex
	conns []net.Conn
	asked bytes.Buffer // all that browsers have sent
}

func (r *relay) serve(l net.Listener) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, in, out)
		r.mu.Unlock()
		go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		go func() { _, _ = io.Copy(io.MultiWriter(out, r), in); _ = out.Close() }()
	}
}

func (r *relay) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked.Write(b)
}

// has reports whether a browser has sent a text, in letters of any case.
func (r *relay) has(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(strings.ToLower(r.asked.String()), text)
}

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
}

// A page whose connection breaks comes back with its last position, and has missed nothing.
func TestReconnect(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{".superstep/workflows/notes.yaml": notes}, nil)
	d.console("--bind", "127.0.0.2")
	_, port, _ := strings.Cut(strings.TrimPrefix(d.url, "http://"), ":")
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	r := &relay{to: "127.0.0.2:" + port}
	go r.serve(l)
	d.url = "http://localhost:" + port
	id := d.detached("notes", "-i", "topic=tides")
	p := d.open("/runs/" + id)
	p.has("#asks", "write_file")
	get[int](p, "window.here = 1")
	r.cut()
	d.run("runs", "answer", id, "write=once")
	p.has("#run-head", "✓ completed")
	r.cut()
	for end := time.Now().Add(patience); !r.has("last-event-id: "); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it came back without its last position")
		}
	}
	if get[int](p, "window.here || 0") != 1 {
		t.Error("the page was loaded anew")
	}
	r.cut()
}

// Eight tabs of one browser follow a run, though a browser has six connections; a tab that is hidden has none.
func TestTabs(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{".superstep/workflows/notes.yaml": notes}, nil)
	d.console()
	id := d.detached("notes", "-i", "topic=tides")
	first := d.open("/runs/" + id)
	all := []*tab{first}
	for range 7 {
		ctx, cancel := chromedp.NewContext(first.ctx)
		all = append(all, d.tab(ctx, cancel, d.url+"/runs/"+id))
	}
	for _, p := range all {
		p.has("#asks", "write_file")
	}
	streams := func() string {
		t.Helper()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/metrics", nil)
		r.Header.Set("Authorization", "Bearer "+d.user)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		_, after, _ := strings.Cut(string(b), "\nsuperstep_console_streams ")
		n, _, _ := strings.Cut(after, "\n")
		return n
	}
	until := func(want string) {
		t.Helper()
		for end := time.Now().Add(patience); streams() != want; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s streams are open, want %s", streams(), want)
			}
		}
	}
	all[7].click(`.ask .option button`) // it gets through
	for _, p := range all {
		p.has("#run-head", "✓ completed")
	}
	until("4")
	for _, p := range all {
		get[int](p, `Object.defineProperty(document, "hidden", {configurable: true, get: () => true}); document.dispatchEvent(new Event("visibilitychange")); 1`)
	}
	until("0")
	get[int](first, `Object.defineProperty(document, "hidden", {configurable: true, get: () => false}); document.dispatchEvent(new Event("visibilitychange")); 1`)
	until("1")
}

// On a phone, what waits is found and answered without scrolling sideways, by targets that a thumb hits.
func TestPhone(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{".superstep/workflows/notes.yaml": notes}, nil)
	d.console()
	id := d.detached("notes", "-i", "topic=tides")
	p := d.open("/runs?tab=needs-you", chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch))
	p.has("#runs", "needs you")
	p.click("#runs td.title a")
	p.has(".ask .diff", "+About tides")
	if top := get[float64](p, `document.querySelector(".ask").getBoundingClientRect().top`); top > 600 {
		t.Errorf("the question begins at %v of 844", top)
	}
	if small := get[[]string](p, `[...document.querySelectorAll(".ask button")].filter(b => b.offsetParent && b.getBoundingClientRect().height < 40).map(b => b.textContent)`); len(small) > 0 {
		t.Errorf("too small for a thumb: %q", small)
	}
	if over := get[int](p, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
		t.Errorf("it is %d pixels too wide", over)
	}
	p.click(`.ask .option button`)
	p.has("#run-head", "✓ completed")
	if !strings.Contains(d.run("runs", "show", id, "-o", "json"), `"completed"`) {
		t.Error("the run is not completed")
	}
}

// With the keyboard alone, everything is reached, where the focus is can be seen, and a question is answered.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{".superstep/workflows/notes.yaml": notes}, nil)
	d.console()
	d.detached("notes", "-i", "topic=tides")
	p := d.open("/runs")
	p.has("#runs", "needs you")
	press := func(key string) { t.Helper(); p.do(chromedp.KeyEvent(key)) }
	press("j") // the first row
	p.wait(`document.activeElement.matches("td.title a")`)
	press(kb.Enter)
	p.has("#asks", "write_file")
	p.wait(`!document.querySelector("form[inert]")`)
	type focused struct{ What, Lacks string }
	now := func() focused {
		return get[focused](p, `(() => { const e = document.activeElement, c = getComputedStyle(e), r = e.getBoundingClientRect();
			const s = e.matches(".node") ? parseFloat(getComputedStyle(e.querySelector(".shape")).strokeWidth) >= 3 : c.outlineStyle !== "none" && parseFloat(c.outlineWidth) >= 2;
			return {What: e === document.body ? "" : e.tagName + " " + (e.textContent || e.name || e.getAttribute("aria-label") || "").trim().slice(0, 40),
				Lacks: e === document.body ? "" : !s ? "a sign of the focus" : r.bottom < 0 || r.top > innerHeight ? "a place in the window" : ""}; })()`)
	}
	seen := map[string]bool{}
	get[int](p, `document.activeElement.blur(); 1`)
	for range 150 {
		press("\t")
		f := now()
		if f.What == "" && len(seen) > 0 {
			break
		}
		if seen[f.What] = true; f.Lacks != "" {
			t.Errorf("%s lacks %s", f.What, f.Lacks)
		}
	}
	for _, want := range []string{"A Skip", "A Runs", "BUTTON Pause", "BUTTON Cancel", "SUMMARY Inputs", "A write", "INPUT at", "A Export"} {
		found := false
		for what := range seen {
			found = found || strings.HasPrefix(what, want)
		}
		if !found {
			t.Errorf("%s is not reached: %v", want, seen)
		}
	}
	get[int](p, `document.querySelector("#asks summary, #asks button").focus(); 1`)
	press(kb.Enter)
	p.has("#run-head", "✓ completed")
	p.wait(`document.querySelector("#said").textContent !== ""`) // and it is said
}

// What users have asked not to see does not move.
func TestReducedMotion(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, nil)
	d.console()
	p := d.open("/runs")
	for value, want := range map[string]int{"no-preference": 1, "reduce": 0} {
		p.prefers("prefers-reduced-motion", value)
		if n := get[int](p, `(() => { const e = document.createElement("span"); e.className = "state s-running"; document.querySelector("main").append(e); return e.getAnimations().length; })()`); n != want {
			t.Errorf("%s: %d animations, want %d", value, n, want)
		}
	}
}

// evil is text that would like to be more than text.
const evil = `<script>alert(1)</script><img src="http://evil.example/a.png" onerror="alert(1)"><svg onload="alert(1)"><iframe src="javascript:alert(1)"></iframe>
<style>@import url(http://evil.example/b.css)</style><link rel="stylesheet" href="http://evil.example/c.css"><base href="http://evil.example/"><meta http-equiv="refresh" content="0;url=http://evil.example/d">
![e](http://evil.example/e.png) [f](javascript:alert(1)) [g]: http://evil.example/g "h" <form action="http://evil.example/"><input autofocus onfocus="alert(1)"></form>
</textarea></pre></script><video src="http://evil.example/i.mp4" onerror="alert(1)"></video>" onmouseover="alert(1)" ' autofocus onfocus='alert(1) {{constructor.constructor('alert(1)')()}} {{.}} ${alert(1)}`

// Texts of models, outputs of tools, names of files, titles and inputs stay texts: nothing of them is executed, and nothing is asked of another computer.
func TestPayloads(t *testing.T) {
	t.Parallel()
	line := strings.ReplaceAll(evil, "\n", " ")
	name := `a<img src=x onerror=alert(1)>'".md`
	turns := 0
	var mu sync.Mutex
	handle := func(r *modeltest.ParsedRequest) modeltest.Reply {
		mu.Lock()
		defer mu.Unlock()
		if turns++; turns == 1 && len(r.Tools) > 0 {
			return modeltest.Call("glob", `{"pattern":"*"}`)
		}
		return modeltest.Text(evil)
	}
	d := newDesk(t, map[string]string{name: evil, ".superstep/workflows/evil.yaml": `name: evil
description: "<script>alert(1)</script> ![x](http://evil.example/w.png)"
inputs: [{name: topic, required: true}]
steps:
  - {id: read, tool: read_file, args: {path: "` + strings.ReplaceAll(name, `"`, `\"`) + `"}}
  - {id: say, subagent: general-purpose, prompt: "{{inputs.topic}}", depends_on: [read]}
  - {id: own, depends_on: [say], ask: {question: "{{inputs.topic}}", options: [{label: "<img src=x onerror=alert(1)>", description: "<svg onload=alert(1)>"}, "no"]}}
  - {id: write, tool: write_file, args: {path: "b<img src=x onerror=alert(1)>.md", content: "{{steps.say.output}}"}, depends_on: [own]}
output: "{{steps.say.output}}"
`}, handle)
	d.console()
	id := d.detached("evil", "-i", "topic="+line)
	p := d.open("/runs/" + id)
	p.has("#asks", "alert(1)") // it came live, by the stream
	p.clean()
	p.visit("/runs/" + id + "?task=say")
	p.has("#parts", "alert(1)")
	p.click(`.ask button`)
	p.has("#asks", "write_file")
	p.clean()
	p.click(`.ask .option button`)
	p.has("#run-head", "✓ completed")
	for _, path := range []string{"/runs", "/runs?q=" + url.QueryEscape(line), "/runs/" + id, "/runs/" + id + "?task=read&tab=output", "/runs/" + id + "?task=say", "/runs/" + id + "?task=say&tab=input",
		"/runs/" + id + "?task=say&tab=output", "/runs/" + id + "?at=5", "/runs/" + id + "/history", "/runs/" + id + "/records", "/runs/" + id + "/definition", "/runs/" + id + "/fork?from=say&set=" + url.QueryEscape(line),
		"/diff?a=" + id + "&b=" + id, "/workflows", "/workflows/evil", "/chats", "/runs/" + url.PathEscape(line), "/runs?tab=" + url.QueryEscape(line)} {
		p.visit(path)
		p.wait(`document.readyState === "complete" && document.querySelector("main")`)
		if n := get[int](p, `document.querySelectorAll("main img, main iframe, main video, main style, main script, main link, main base, main [onerror], main [onload], main [onfocus]").length`); n > 0 {
			t.Errorf("%s has %d elements of a text", path, n)
		}
		p.clean()
	}
}

// Who sends the head of a request too slowly is hung up on.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, nil)
	d.console()
	c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n")); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(began.Add(patience))
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if took := time.Since(began); took < 9*time.Second {
		t.Errorf("it was hung up on after %v", took)
	}
}
