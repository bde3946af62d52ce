// Package e2e tests the console as a user has it: in a real browser, over the real command, with runs of other processes. It has no code besides its tests.
package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
)

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

// the browser, which all tests share: the first one starts it.
var the struct {
	sync.Once
	browser context.Context
	err     error
	stop    []func() // in the reverse order
}

func TestMain(m *testing.M) {
	code := m.Run()
	the.Do(func() {}) // it is not started any more
	for _, stop := range slices.Backward(the.stop) {
		stop()
	}
	os.Exit(code)
}

// browser starts the browser. Without one the test is skipped.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := faults.Need(t, faults.Chromium)
	the.Do(func() {
		dir, err := os.MkdirTemp("", "superstep-e2e-") //nolint:usetesting // it outlives the test
		if err != nil {
			the.err = err
			return
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(filepath.Join(dir, "profile")),
			chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost")) // it can reach nothing else, whatever a page asks for
		alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, cancel := chromedp.NewContext(alloc)
		the.browser, the.stop = ctx, []func(){func() { _ = os.RemoveAll(dir) }, stop, cancel}
		if err := chromedp.Do(ctx); err != nil {
			the.err = fmt.Errorf("%s does not start: %w", path, err)
		}
	})
	if the.err != nil {
		t.Fatal(the.err)
	}
	return the.browser
}

// desk is a user with a project, a model and a console.
type desk struct {
	t    *testing.T
	dir  string
	env  []string
	url  string // of the console, without a slash at its end
	user string // the token of its operator
	stop func() // kills the console
}

// newDesk makes a project of some files. Without a browser the test is skipped.
func newDesk(t *testing.T, files map[string]string, handle modeltest.Handler) *desk {
	t.Helper()
	browser(t)
	root, err := os.MkdirTemp("", "e2e") //nolint:usetesting // short: the sockets of runs are below it
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, dir: filepath.Join(root, "project"), stop: func() {}}
	t.Cleanup(func() {
		d.stop()
		for end := time.Now().Add(5 * time.Second); os.RemoveAll(root) != nil && time.Now().Before(end); { // processes that end may still write
			time.Sleep(20 * time.Millisecond)
		}
	})
	for name, text := range files {
		d.write(name, text)
	}
	d.write("README.md", "# A project\n")
	d.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "XDG_RUNTIME_DIR=" + root, "SUPERSTEP_DATA_DIR=" + root + "/data", "LANG=C.UTF-8"}
	if handle != nil {
		d.env = append(d.env, "OPENAI_API_KEY=sk-0123456789abcdef", "OPENAI_BASE_URL="+modeltest.NewServer(t, handle, nil).URL, "SUPERSTEP_MODEL=openai/gpt-test")
	}
	d.run("trust", "--yes")
	return d
}

func (d *desk) write(name, text string) {
	d.t.Helper()
	path := filepath.Join(d.dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(d.t.Context(), faults.Command(d.t), args...)
	cmd.Dir, cmd.Env = d.dir, d.env
	return cmd
}

// run runs a command, and returns its output.
func (d *desk) run(args ...string) string {
	d.t.Helper()
	out, err := d.command(args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() != 3 && exit.ExitCode() != 7 && exit.ExitCode() != 1 {
		d.t.Fatalf("superstep %v: %v\n%s", args, err, exit.Stderr)
	}
	return strings.TrimSpace(string(out))
}

// detached starts a run in a process of its own, and returns its ID.
func (d *desk) detached(args ...string) string {
	d.t.Helper()
	var started struct {
		Run string
		PID int
	}
	out := d.run(append([]string{"run", "--detach", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &started); err != nil {
		d.t.Fatalf("%v\n%s", err, out)
	}
	d.t.Cleanup(func() {
		if p, err := os.FindProcess(started.PID); err == nil {
			_ = p.Kill()
		}
	})
	return started.Run
}

// console starts the console. It may be killed by stop, and started again.
func (d *desk) console(args ...string) {
	d.t.Helper()
	cmd := d.command(append([]string{"console", "--port", "0", "-o", "json"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	said := &strings.Builder{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	stop := sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	d.stop = stop
	d.t.Cleanup(stop)
	lines := bufio.NewScanner(out)
	var text strings.Builder
	for !strings.Contains(text.String(), "}") && lines.Scan() {
		text.WriteString(lines.Text())
	}
	var printed struct{ URL string }
	if err := json.Unmarshal([]byte(text.String()), &printed); err != nil {
		stop()
		d.t.Fatalf("%v: %s%s", err, text.String(), said)
	}
	u, err := url.Parse(printed.URL)
	if err != nil {
		d.t.Fatal(err)
	}
	d.url, d.user = "http://"+u.Host, u.Query().Get("t")
}

// tab is a page of the browser, with what it has done so far.
type tab struct {
	t   *testing.T
	d   *desk
	ctx context.Context

	mu    sync.Mutex
	asked []string // the addresses that it asked for, all of them
}

// watch is in each page before its own scripts: it notes what the policy stops, and what a text of somebody else has executed.
const watch = `window.wrong = []; window.executed = 0;
document.addEventListener("securitypolicyviolation", (e) => wrong.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));
addEventListener("error", (e) => wrong.push("error " + e.message)); addEventListener("unhandledrejection", (e) => wrong.push("rejected " + e.reason));
window.alert = () => { executed++; }; window.confirm = () => true;`

// open opens a tab with cookies of its own, of the size of a screen, at a page of the console.
func (d *desk) open(path string, setup ...chromedp.Action[chromedp.Void]) *tab {
	d.t.Helper()
	ctx, cancel := chromedp.NewContext(browser(d.t), chromedp.WithNewBrowserContext())
	return d.tab(ctx, cancel, d.url+path+map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]+"t="+d.user, setup...)
}

func (d *desk) tab(ctx context.Context, cancel func(), address string, setup ...chromedp.Action[chromedp.Void]) *tab {
	d.t.Helper()
	p := &tab{t: d.t, d: d, ctx: ctx}
	d.t.Cleanup(cancel)
	err := chromedp.Listen(ctx, func(ev any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if e, ok := ev.(*network.EventRequestWillBeSent); ok {
			p.asked = append(p.asked, e.Request.URL)
		}
	})
	if err == nil {
		p.screen(1440, 1000)
		p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
				return err
			}
			_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch})
			return err
		}))
		p.do(setup...)
		p.do(chromedp.Navigate(address))
		p.wait(`!location.search.includes("t=") && document.readyState === "complete"`)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

// do carries out actions.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("%v\n%s", err, p.see())
	}
}

// see returns the text of the page, for messages.
func (p *tab) see() string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + (document.body ? document.body.innerText : "")`))
	if err != nil {
		return err.Error()
	}
	return text
}

// get evaluates an expression on a page.
func get[T any](p *tab, js string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 4*patience) // axe looks at hundreds of nodes
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// wait waits until an expression holds, on whatever page there is by then.
func (p *tab) wait(js string) {
	p.t.Helper()
	var last error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+js+")"))
		cancel()
		if ok && err == nil {
			return
		}
		last = err // such as between two pages
	}
	p.t.Fatalf("%s does not hold (%v)\n%s", js, last, p.see())
}

// has waits until the text of an element has some words.
func (p *tab) has(selector, words string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("(document.querySelector(%q)?.textContent || '').includes(%q)", selector, words))
}

// visit goes to another page of the console.
func (p *tab) visit(path string) {
	p.t.Helper()
	p.clean()
	p.do(chromedp.Navigate(p.d.url + path))
}

// click clicks the first element that a selector finds.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("(e => e && !e.disabled && !e.closest('[inert]'))(document.querySelector(%q))", selector))
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// fill writes a text into a field.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.do(chromedp.Focus(chromedp.CSS(selector)), chromedp.SendKeys(chromedp.CSS(selector), text))
}

// screen sets the size of the window.
func (p *tab) screen(width, height int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height))
}

// prefers sets a feature of media queries, such as the colour scheme.
func (p *tab) prefers(name, value string) {
	p.t.Helper()
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: name, Value: value}}})
		return err
	}))
}

// clean fails the test if the page has executed what it must not, has asked another computer, or has something that the policy stopped.
func (p *tab) clean() {
	p.t.Helper()
	if wrong := get[[]string](p, "window.wrong || []"); len(wrong) > 0 {
		p.t.Errorf("%s: %q", get[string](p, "location.href"), wrong)
	}
	if n := get[int](p, "window.executed || 0"); n > 0 {
		p.t.Errorf("%s: %d scripts of others were executed", get[string](p, "location.href"), n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.asked {
		if !strings.HasPrefix(a, p.d.url+"/") && !strings.HasPrefix(a, "data:") && !strings.HasPrefix(a, "blob:"+p.d.url+"/") {
			p.t.Errorf("a page asked for %s", a)
		}
	}
	p.asked = nil
}
