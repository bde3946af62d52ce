package script

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"modernc.org/quickjs"

	"github.com/superstep-dev/superstep/internal/procgroup"
)

// The embedded engine runs a module inside this program: without files, network, processes and
// timers that outlive the call, within limits of memory and time.
type embedded struct{}

// abortTime is how long a module has after its signal has told it to stop.
const abortTime = time.Second

func (embedded) run(ctx context.Context, m *module, r *request) (_ *answer, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the embedded engine failed: %v", p)
		}
	}()
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, fmt.Errorf("the embedded engine does not start: %w", err)
	}
	defer func() { err = errors.Join(err, vm.Close()) }()
	vm.SetMemoryLimit(uintptr(m.opts.Memory))
	s := &session{vm: vm, start: time.Now(), limit: r.Limit}
	stop := s.interruptAfter(ctx)
	defer stop()
	if err := s.prepare(m.found.bundle.code); err != nil {
		return nil, err
	}
	req := *r
	req.File, req.Directory, req.Platform = m.found.Path, m.opts.Directory, platform()
	req.Env = map[string]string{}
	for _, v := range slices.Concat(procgroup.Base(m.opts.Environ), pick(m.opts.Environ, slices.Concat(m.opts.Env, r.env)...)) {
		name, value, _ := strings.Cut(v, "=")
		req.Env[name] = value
	}
	b, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	if err := s.loop(ctx, string(b)); err != nil {
		return nil, err
	}
	if s.answer.failure != nil {
		s.answer.hint = s.hint()
	}
	return s.answer, nil
}

func platform() string {
	if runtime.GOOS == "windows" {
		return "win32"
	}
	return runtime.GOOS
}

// A session is one run of the embedded engine. All but the interrupt is done by one goroutine.
type session struct {
	vm     *quickjs.VM
	start  time.Time
	limit  int
	log    tail
	answer *answer
}

// interruptAfter stops what runs once ctx has ended and the module had its time. One interrupt
// may come between two evaluations and be lost, so it is repeated until stop is called.
func (s *session) interruptAfter(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		wait := abortTime
		for {
			select {
			case <-done:
				return
			case <-time.After(wait):
				s.vm.Interrupt()
				wait = 20 * time.Millisecond
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

func (s *session) prepare(code []byte) error {
	s.log.limit = maxLog
	files := modules()
	s.vm.SetModuleLoader(func(_ *quickjs.VM, name string) (string, error) {
		if name == bundleName {
			return string(code), nil
		}
		if b, ok := files[name]; ok {
			return string(b), nil
		}
		return "", fmt.Errorf("imports %q: %s", clip(name), remedy)
	}, func(_ *quickjs.VM, _, name string) (string, error) { return strings.TrimPrefix(name, "./"), nil })
	for name, f := range map[string]quickjs.HostFunc{
		"now":    func([]any) (any, error) { return float64(time.Since(s.start)) / float64(time.Millisecond), nil },
		"uuid":   func([]any) (any, error) { return uuid(), nil },
		"log":    func(args []any) (any, error) { s.log.add([]byte(argument(args, 0) + "\n")); return nil, nil },
		"decode": func(args []any) (any, error) { b, err := hex.DecodeString(argument(args, 0)); return string(b), err },
		"done":   func(args []any) (any, error) { s.done(argument(args, 0), argument(args, 1)); return nil, nil },
	} {
		if err := s.vm.RegisterHostFunc("__superstep_"+name, f); err != nil {
			return err
		}
	}
	const host = `globalThis.__superstep_host = {};
for (const n of ["now", "uuid", "log", "decode", "done"]) {
	__superstep_host[n] = globalThis["__superstep_" + n];
	delete globalThis["__superstep_" + n];
}`
	if err := s.eval(host, quickjs.EvalGlobal); err != nil {
		return err
	}
	return s.eval(string(source("embedded.mjs")), quickjs.EvalModule)
}

func (s *session) eval(code string, flags int) error {
	v, err := s.vm.EvalValue(code, flags)
	if err != nil {
		return err
	}
	v.Free()
	return nil
}

func argument(args []any, i int) string {
	if i >= len(args) {
		return ""
	}
	text, _ := args[i].(string)
	return text
}

func (s *session) done(kind, text string) {
	if s.answer != nil {
		return
	}
	if kind == "failure" {
		f := new(thrown)
		if json.Unmarshal([]byte(text), f) != nil {
			f.Message = "the tool failed without saying why"
		}
		s.answer = &answer{failure: f}
		return
	}
	h := head{limit: s.limit}
	h.add([]byte(text))
	s.answer = &answer{text: h.text()}
	s.answer.dropped = int64(len(text) - len(s.answer.text))
}

// loop runs a request until it is answered, cannot be, or ctx has ended.
func (s *session) loop(ctx context.Context, req string) error {
	if _, err := s.vm.Call("__superstep_loop.start", req); err != nil {
		return s.stopped(ctx, err)
	}
	aborted := ctx.Done()
	var deadline <-chan time.Time
	for s.answer == nil {
		n, err := s.vm.ExecutePendingJobs()
		if err != nil {
			return s.stopped(ctx, err)
		}
		if s.answer != nil {
			break
		}
		if n > 0 && ctx.Err() == nil {
			continue
		}
		v, err := s.vm.Call("__superstep_loop.wait")
		if err != nil {
			return s.stopped(ctx, err)
		}
		wait := milliseconds(v)
		if wait < 0 && ctx.Err() == nil {
			s.answer = &answer{failure: &thrown{Message: "the tool waits for something that can never happen"}}
			break
		}
		var due <-chan time.Time
		if wait >= 0 {
			due = time.After(wait)
		} else if deadline != nil { // it has been told to stop and has nothing left to do
			return context.Cause(ctx)
		}
		select {
		case <-due:
			if _, err := s.vm.Call("__superstep_loop.tick"); err != nil {
				return s.stopped(ctx, err)
			}
		case <-aborted:
			aborted, deadline = nil, time.After(abortTime)
			if _, err := s.vm.Call("__superstep_loop.abort"); err != nil {
				return s.stopped(ctx, err)
			}
		case <-deadline:
			return context.Cause(ctx)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// stopped is why the engine stopped: the end of ctx, or a failure that the module cannot catch.
func (s *session) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f := &thrown{Message: err.Error()}
	if e, ok := errors.AsType[*quickjs.Error](err); ok {
		f.Stack = e.Stack
	}
	s.answer = &answer{failure: f}
	return nil
}

func (s *session) hint() string {
	m := s.answer.failure.Message
	switch {
	case strings.Contains(m, "install node, bun or deno"):
		return ""
	case s.answer.failure.Name == "ReferenceError":
		return remedy
	}
	return ""
}

func milliseconds(v any) time.Duration {
	var ms float64
	switch v := v.(type) {
	case int:
		ms = float64(v)
	case int32:
		ms = float64(v)
	case float64:
		ms = v
	}
	return time.Duration(min(ms, 1e9) * float64(time.Millisecond))
}

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
