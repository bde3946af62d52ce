package script

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// load creates the tools from what was found, which for a module runs it to learn what it holds. Call
// it only for what the user trusts. The error, if any, joins values of type Problem; the tools
// beside it can be used all the same.
//
// A tool never outlives a call of it: whatever it started is dead when Run returns.
func load(ctx context.Context, f Found, opts *Options) ([]*tool.Tool, error) {
	o := opts.orDefault(f.root)
	t, m, err := prepare(f, &o)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return []*tool.Tool{t}, nil
	}
	return m.tools(ctx)
}

// Check returns why a Found cannot be used, as far as that is visible without running it, or nil if
// it can.
func Check(f Found, opts *Options) []Problem {
	o := opts.orDefault(f.root)
	_, _, err := prepare(f, &o)
	return asProblems(f.Path, err)
}

// prepare creates the tool of a command, or a module that is ready to list its tools.
func prepare(f Found, o *Options) (*tool.Tool, *module, error) {
	if f.root == "" {
		return nil, nil, Problem{File: f.Path, Text: "was not found by Discover"}
	}
	if !filepath.IsAbs(o.Directory) {
		return nil, nil, Problem{File: f.Path, Text: fmt.Sprintf("the folder to work in, %q, is not absolute", o.Directory)}
	}
	if f.Kind == Command {
		t, err := loadCommand(f, o)
		return t, nil, err
	}
	if names := slices.DeleteFunc(slices.Clone(f.Names), func(n string) bool { return nameProblem(n, o.Reserved) != "" }); len(names) == 0 && len(f.Names) > 0 {
		return nil, nil, Problem{File: f.Path, Text: nameProblem(f.Names[0], o.Reserved)}
	}
	e, err := o.engine(f.bundle.foreign)
	if err != nil {
		return nil, nil, Problem{File: f.Path, Text: err.Error()}
	}
	return nil, &module{found: f, engine: e, opts: o}, nil
}

// LoadAll loads the tools of several Found in parallel. If tools have the same name, that of the
// earlier Found is kept, so pass the folders of a project before those of the user. Tools that are
// left out, and oddities, are among the problems; other tools are loaded nevertheless.
func LoadAll(ctx context.Context, found []Found, opts *Options) ([]*tool.Tool, []Problem) {
	var o Options
	if opts != nil {
		o = *opts
	}
	var problems []Problem
	var mu sync.Mutex
	o.warn = func(p Problem) {
		mu.Lock()
		defer mu.Unlock()
		problems = append(problems, p)
	}
	tools := make([][]*tool.Tool, len(found))
	errs := make([]error, len(found))
	var loaders errgroup.Group
	loaders.SetLimit(4)
	for i, f := range found {
		loaders.Go(func() error {
			tools[i], errs[i] = load(ctx, f, &o)
			return nil
		})
	}
	_ = loaders.Wait() // errors are kept one by one

	var out []*tool.Tool
	owner := map[string]int{}
	for i, f := range found {
		problems = append(problems, asProblems(f.Path, errs[i])...)
		for _, t := range tools[i] {
			first, taken := owner[t.Name]
			if !taken {
				owner[t.Name] = i
				out = append(out, t)
				continue
			}
			other := found[first]
			p := Problem{File: f.Path, Text: fmt.Sprintf("its tool %q is hidden by the one of %s", t.Name, other.Path)}
			if other.Scope.Name == f.Scope.Name {
				p.Text = fmt.Sprintf("its tool %q has the name of the one of %s, which is used; rename one of the two", t.Name, other.Path)
			}
			p.Warning = other.Scope.Name != f.Scope.Name
			problems = append(problems, p)
		}
	}
	sortProblems(problems)
	return out, problems
}

func asProblems(file string, err error) []Problem {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []Problem
		for _, e := range joined.Unwrap() {
			out = append(out, asProblems(file, e)...)
		}
		return out
	}
	if p, ok := errors.AsType[Problem](err); ok {
		return []Problem{p}
	}
	return []Problem{{File: file, Text: err.Error()}}
}

// A module is a file of tools that are ready to be called.
type module struct {
	found  Found
	engine *engine
	opts   *Options
}

// A described is a module's description of one of its tools. None of its values can be trusted.
type described struct {
	Export      string
	Description json.RawMessage
	Input       json.RawMessage
	Output      json.RawMessage
	Effect      json.RawMessage
	Timeout     json.RawMessage
	Env         json.RawMessage
	Network     json.RawMessage
	Read        json.RawMessage
	Write       json.RawMessage
	Problem     string
}

func (m *module) tools(ctx context.Context) ([]*tool.Tool, error) {
	file := m.found.Path
	ctx, cancel := context.WithTimeoutCause(ctx, m.opts.LoadTimeout, fmt.Errorf("it took longer than %v to tell what it holds", m.opts.LoadTimeout))
	defer cancel()
	a, err := m.engine.run(ctx, m, &request{Op: "describe", Limit: maxDescribe, needs: m.found.Needs})
	if err == nil {
		err = a.err(m)
	}
	if err != nil {
		return nil, Problem{File: file, Text: "cannot be loaded: " + err.Error()}
	}
	if a.dropped > 0 || len(a.text) > maxDescribe {
		return nil, Problem{File: file, Text: fmt.Sprintf("tells more than %d KiB of its tools; make their schemas smaller", maxDescribe>>10)}
	}
	var told struct {
		Tools  []described
		Others []string
	}
	if err := json.Unmarshal([]byte(a.text), &told); err != nil {
		return nil, Problem{File: file, Text: fmt.Sprintf("tells of its tools what cannot be understood: %v", err)}
	}
	if len(told.Tools) == 0 {
		text := "exports no tool; export default tool({description, args, execute})"
		if len(told.Others) > 0 {
			text += "; it exports " + clip(strings.Join(told.Others, ", "))
		}
		return nil, Problem{File: file, Text: text}
	}
	var tools []*tool.Tool
	var errs []error
	_, base := kindOf(filepath.Base(file))
	for _, d := range told.Tools {
		name := toolName(base, d.Export)
		t, err := m.tool(name, d)
		if err != nil {
			errs = append(errs, Problem{File: file, Text: fmt.Sprintf("tool %q: %v", clip(name), err)})
			continue
		}
		tools = append(tools, t)
	}
	return tools, errors.Join(errs...)
}

func (m *module) tool(name string, d described) (*tool.Tool, error) {
	if text := nameProblem(name, m.opts.Reserved); text != "" {
		return nil, errors.New(text)
	}
	if d.Problem != "" {
		return nil, errors.New(d.Problem)
	}
	warn := func(text string) {
		m.opts.warn(Problem{File: m.found.Path, Text: fmt.Sprintf("tool %q: %s", name, text), Warning: true})
	}
	var description string
	if err := json.Unmarshal(orNull(d.Description), &description); err != nil || strings.TrimSpace(description) == "" {
		return nil, errors.New("has no description, which is what tells the model when to use it")
	}
	t := &tool.Tool{Name: name, Description: cleanDescription(description, warn)}
	var err error
	reader := strict.SchemaReader{Lenient: true, Note: warn}
	if t.Input, err = reader.Read(orNull(d.Input), true); err != nil {
		return nil, fmt.Errorf("the schema of its arguments %w", err)
	}
	if len(d.Output) > 0 && !bytes.Equal(d.Output, []byte("null")) {
		if t.Output, err = reader.Read(d.Output, false); err != nil {
			return nil, fmt.Errorf("the schema of its output %w", err)
		}
	}
	if t.Effect, err = effectOf(d.Effect); err != nil {
		return nil, err
	}
	timeout, err := timeoutOf(d.Timeout, defaultTimeout)
	if err != nil {
		return nil, err
	}
	env, needs, err := m.declared(d)
	if err != nil {
		return nil, err
	}
	t.Network = len(needs.Network) > 0
	t.Run = func(ctx context.Context, c *tool.Call) (string, error) {
		return m.call(ctx, name, d.Export, env, needs, timeout, c)
	}
	return t, nil
}

// declared reads the needs of a tool. They must be among those found in the module's text, which
// users have trusted: computed values would appear only at run time.
func (m *module) declared(d described) (env []string, needs sandbox.Needs, err error) {
	if err := json.Unmarshal(orNull(d.Env), &env); err != nil {
		return nil, needs, errors.New(`env is not a list of names of variables, such as ["GITHUB_TOKEN"]`)
	}
	if err := checkEnv(env); err != nil {
		return nil, needs, err
	}
	for _, list := range []struct {
		key  string
		told json.RawMessage
	}{{"network", d.Network}, {"read", d.Read}, {"write", d.Write}} {
		values := []string{""}
		if json.Unmarshal(orNull(list.told), &values) != nil && json.Unmarshal(list.told, &values[0]) != nil {
			return nil, needs, fmt.Errorf("%s is not a list of texts", list.key)
		}
		for _, v := range values {
			if err := needs.Add(list.key, v); err != nil {
				return nil, needs, err
			}
		}
	}
	unseen := slices.ContainsFunc(env, func(name string) bool { return !slices.Contains(m.found.Env, name) })
	if unseen || !needs.Within(m.found.Needs) {
		return nil, needs,
			errors.New(`what it needs (env, network, read or write) is not written down where it can be seen before it runs; write a list ` +
				`of texts, such as network: ["api.example.com"]`)
	}
	return env, needs, nil
}

func (m *module) call(ctx context.Context, name, export string, env []string, needs sandbox.Needs, timeout time.Duration, c *tool.Call) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, tookTooLong(timeout))
	defer cancel()
	req := &request{Op: "call", Export: export, Args: c.Args, Limit: maxOutput, env: env, needs: needs, refused: c.Refused}
	if len(bytes.TrimSpace(req.Args)) == 0 {
		req.Args = json.RawMessage("{}")
	}
	if !json.Valid(req.Args) {
		return "", fmt.Errorf("tool %s: its arguments are not JSON", name)
	}
	req.Context = contextOf(c, m.opts)
	req.State, req.StateError = stateOf(c)
	a, err := m.engine.run(ctx, m, req)
	if err == nil {
		err = a.err(m)
	}
	if err != nil {
		return "", fmt.Errorf("tool %s failed: %w", name, err)
	}
	return a.text + omitted(a.dropped), nil
}

func tookTooLong(timeout time.Duration) error {
	return fmt.Errorf("it took longer than %v and was ended; give it less to do, or a longer timeout in its definition", timeout)
}

// omitted describes how much of an output was not kept.
func omitted(n int64) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("\n[%d more bytes of output were not kept]", n)
}

func stateOf(c *tool.Call) (json.RawMessage, string) {
	if c.State == nil {
		return nil, ""
	}
	b, err := c.State()
	switch {
	case err != nil:
		return nil, "the state of the workflow cannot be read: " + err.Error()
	case len(b) > maxState:
		return nil, fmt.Sprintf("the state of the workflow is %d MiB, more than the %d that a tool is told", len(b)>>20, maxState>>20)
	case !json.Valid(b):
		return nil, "the state of the workflow is not JSON"
	}
	return b, ""
}

func cleanDescription(s string, warn func(string)) string {
	c := clean.Text(s)
	if c != s {
		warn("the description held characters that could drive a terminal or deceive a reader; they were taken out")
	}
	return c
}

func orNull(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return json.RawMessage("null")
	}
	return b
}

func effectOf(b json.RawMessage) (tool.Effect, error) {
	var s string
	err := json.Unmarshal(orNull(b), &s)
	switch e := tool.Effect(s); {
	case err != nil:
	case e == "":
		return tool.Once, nil
	case e == tool.Pure || e == tool.Idempotent || e == tool.Once:
		return e, nil
	}
	return "", fmt.Errorf("effect is %s; use pure, idempotent or once", clip(string(b)))
}

// timeoutOf reads "30s" or a number of milliseconds.
func timeoutOf(b json.RawMessage, otherwise time.Duration) (time.Duration, error) {
	var v any
	if err := json.Unmarshal(orNull(b), &v); err != nil {
		return 0, err
	}
	d := time.Duration(-1)
	switch v := v.(type) {
	case nil:
		d = otherwise
	case float64:
		if v <= float64(maxTimeout/time.Millisecond) {
			d = time.Duration(v * float64(time.Millisecond))
		}
	case string:
		if _, err := strconv.Atoi(v); err == nil {
			return 0, fmt.Errorf("timeout is %q; add a unit, such as %ss", clip(v), clip(v))
		}
		if read, err := time.ParseDuration(v); err == nil {
			d = read
		}
	}
	if d <= 0 || d > maxTimeout {
		return 0, fmt.Errorf(`timeout is %s; write a duration of at most 24h, such as "30s"`, clip(string(b)))
	}
	return d, nil
}

func checkEnv(names []string) error {
	for _, n := range names {
		if !validVariable(n) {
			return fmt.Errorf("env: %q is not the name of a variable", clip(n))
		}
		if strings.HasPrefix(n, "SUPERSTEP_") {
			return fmt.Errorf("env: %s is set for the tool, not passed on to it", n)
		}
	}
	return nil
}

func validVariable(name string) bool {
	for i, c := range []byte(name) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 128
}

// pick returns the variables of an environment that have one of the names.
func pick(environ []string, names ...string) []string {
	var out []string
	for _, v := range environ {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(names, name) {
			out = append(out, v)
		}
	}
	return out
}
