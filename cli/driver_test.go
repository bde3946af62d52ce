package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/internal/events/eventstest"
)

// program answers the question of the workflow ask the moment it is told of it, from another goroutine than the one that tells,
// after lines that are wrong.
type program struct {
	mu    sync.Mutex
	lines bytes.Buffer
	once  sync.Once
	in    *io.PipeWriter
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes.Contains(b, []byte(`"question.asked"`)) {
		p.once.Do(func() {
			go func() {
				for range 20 {
					_, _ = fmt.Fprintln(p.in, `{"type":"answer","task":"nobody","key":"q","answer":"yes"}`)
				}
				_, _ = fmt.Fprintln(p.in, `{"type":"answer","task":"ask","key":"q","answer":"yes"}`) // the pipe is closed at the end
			}()
		})
	}
	return p.lines.Write(b)
}

// Refusals and records of the run come from several goroutines and are one stream.
func TestDriver(t *testing.T) {
	t.Parallel()
	c, err := eventstest.New()
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	p := &program{in: w}
	var errs bytes.Buffer
	opt := testOptions()
	opt.Args = []string{"run", "ask", "-o", "jsonl", "--input", "jsonl", "--store", "memory", "--data-dir", t.TempDir()}
	opt.Stdin, opt.Stdout, opt.Stderr = r, p, &errs
	code := Main(testConfig(os.Getenv), opt)
	_ = r.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := c.All(p.lines.Bytes())
	if refused := bytes.Count(p.lines.Bytes(), []byte(`"input.refused"`)); code != ExitOK || err != nil || refused != 20 || n < 25 {
		t.Errorf("exit code %d, %d events with %d refusals: %v\n%s%s", code, n, refused, err, errs.String(), p.lines.String())
	}
}

// An order means one thing, for whoever reads it.
func TestOrderIsExact(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{"type":"deny","task":"a","key":"k","Type":"answer","answer":"once"}`, `{"type":"pause","type":"cancel"}`, `{"TYPE":"cancel"}`,
		`{"type":"answer","task":"a","key":"k","answer":1,"an\u017fwer":2}`,
	} {
		if o, err := parseOrder([]byte(line)); err == nil {
			t.Errorf("%s is taken as %+v", line, o)
		}
	}
}

// What is no order says what is wrong with it.
func FuzzOrder(f *testing.F) {
	for _, s := range []string{
		`{"type":"pause"}`, `{"type":"cancel"}`, `{"type":"deny","task":"a","key":""}`, `{"type":"answer","task":"a","key":"k","answer":null}`,
		`{"type":"answer"}`, `[]`, `null`, `{} {}`, `{"type":"pause","key":"k"}`, `{"type":"deny","task":"a","key":"k","answer":1}`, "\x00", `{"type":"steer"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		o, err := parseOrder(line)
		switch {
		case err != nil:
		case o.Type == "answer" && o.Task != "" && o.Key != nil && o.Answer != nil:
		case o.Type == "deny" && o.Task != "" && o.Key != nil && o.Answer == nil:
		case (o.Type == "pause" || o.Type == "cancel") && o.Task == "" && o.Key == nil && o.Answer == nil:
		default:
			t.Errorf("%q is taken as %+v", line, o)
		}
	})
}
