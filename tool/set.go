package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/toolnames"
)

// A Set is the tools a model may call, in order. It is safe for use from several
// goroutines; a nil Set holds no tools.
type Set struct {
	tools  []*Tool
	byName map[string]entry
	guard  Guard
}

type entry struct {
	tool   *Tool
	check  checker
	output checker
}

// NewSet creates a set of tools, or returns an error that names every mistake in them: a
// bad or repeated name, a missing function, an invalid schema or effect.
func NewSet(tools ...*Tool) (*Set, error) {
	s := &Set{byName: make(map[string]entry, len(tools))}
	var errs []error
	for i, t := range tools {
		if t == nil {
			errs = append(errs, fmt.Errorf("tool %d of %d: is nil", i+1, len(tools)))
			continue
		}
		check, err := t.validate()
		if err != nil {
			errs = append(errs, fmt.Errorf("tool %q: %w", t.Name, err))
		}
		if _, twice := s.byName[t.Name]; twice {
			errs = append(errs, fmt.Errorf("tool %q: given twice; give one of the two another name", t.Name))
			continue
		}
		s.tools = append(s.tools, t)
		output, err := newChecker("output", t.Output)
		if err != nil {
			errs = append(errs, fmt.Errorf("tool %q: %w", t.Name, err))
		}
		s.byName[t.Name] = entry{t, check, output}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// validate checks what NewSet promises about one tool.
func (t *Tool) validate() (checker, error) {
	var errs []error
	if !toolnames.Valid(t.Name) {
		errs = append(errs, errors.New("bad name; use 1 to 64 letters, digits, _ and -"))
	}
	if t.Run == nil {
		errs = append(errs, errors.New("has no function"))
	}
	switch t.Effect {
	case "", Pure, Idempotent, Once:
	default:
		errs = append(errs, fmt.Errorf("unknown effect %q; use pure, idempotent or once", t.Effect))
	}
	check, err := newArgsChecker(t.Input)
	if err != nil {
		errs = append(errs, err)
	}
	return check, errors.Join(errs...)
}

// Tools returns the tools in order.
func (s *Set) Tools() []*Tool {
	if s == nil {
		return nil
	}
	return slices.Clone(s.tools)
}

// Names returns the names of the tools in order.
func (s *Set) Names() []string {
	names := []string{}
	for _, t := range s.Tools() {
		names = append(names, t.Name)
	}
	return names
}

// Get returns the tool of that name, and whether there is one.
func (s *Set) Get(name string) (*Tool, bool) {
	e, ok := s.entry(name)
	return e.tool, ok
}

// With returns the set with more tools at its end. A tool with an existing name replaces the old
// one.
func (s *Set) With(tools ...*Tool) (*Set, error) {
	list := s.Tools()
	for _, t := range tools {
		if i := slices.IndexFunc(list, func(have *Tool) bool { return t != nil && have.Name == t.Name }); i >= 0 {
			list[i] = t
			continue
		}
		list = append(list, t)
	}
	out, err := NewSet(list...)
	if err != nil {
		return nil, err
	}
	return out.Guarded(s.Guard()), nil
}

// Select returns the set of only the tools named, in the order of names, or an error
// that lists every name that is unknown or repeated.
func (s *Set) Select(names ...string) (*Set, error) {
	out := &Set{byName: make(map[string]entry, len(names)), guard: s.Guard()}
	var errs []error
	for _, name := range names {
		t, ok := s.Get(name)
		if !ok {
			errs = append(errs, errors.New(s.unknown(name)))
			continue
		}
		if _, twice := out.byName[name]; twice {
			errs = append(errs, fmt.Errorf("tool %q: named twice", name))
			continue
		}
		out.tools = append(out.tools, t)
		out.byName[name] = s.byName[name]
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// Call uses a tool. Failures are reported only in its result, which the model reads: an unknown
// name, arguments that do not fit, a refusal of the Guard, an error of the tool, a result that does
// not fit its Output and a panic in it are results with Error set. The text is cleaned, and
// truncated unless the tool gives it Whole. If ctx has ended the tool is not called; callers that
// must tell a cancelled call from a failed one look at ctx.
func (s *Set) Call(ctx context.Context, name string, c *Call) Result {
	r := s.CallWhole(ctx, name, c)
	if t, ok := s.Get(name); r.Error || !ok || !t.Whole {
		r.Text, _ = clean.Truncate(r.Text)
	}
	return r
}

// CallWhole is [Set.Call] for callers that can handle a result of any size: a successful result is
// not truncated, and that of a Raw call is not cleaned.
func (s *Set) CallWhole(ctx context.Context, name string, c *Call) Result {
	if c == nil {
		c = new(Call)
	}
	if why, refuses := s.Refuses(name, c.Args); refuses {
		return why
	}
	if ctx.Err() != nil {
		return Failed(fmt.Sprintf("tool %s was not called: %v", name, context.Cause(ctx)))
	}
	e := s.byName[name]
	call := *c
	if len(strings.TrimSpace(string(call.Args))) == 0 {
		call.Args = []byte("{}")
	}
	if why := s.guard.refuses(e.tool, &call); why != "" {
		return Failed(why)
	}
	var mu sync.Mutex
	var refused []string
	call.Refused = func(texts ...string) {
		mu.Lock()
		defer mu.Unlock()
		for _, text := range texts {
			refused = append(refused, strings.Join(strings.Fields(clean.Text(text)), " "))
		}
	}
	text, err := run(ctx, e.tool, &call)
	mu.Lock()
	defer mu.Unlock()
	if err == nil && e.tool.Output != nil {
		err = e.fits(text)
	}
	if err != nil {
		out := Failed(err.Error())
		out.Stops, out.Refused = Stops(err), strings.Join(refused, "\n")
		return out
	}
	if call.Raw {
		return Result{Text: strings.ToValidUTF8(text, "\uFFFD"), Refused: strings.Join(refused, "\n")}
	}
	return Result{Text: clean.Text(text), Refused: strings.Join(refused, "\n")}
}

// Refuses returns the result with which [Set.Call] would refuse a call because the tool is unknown
// or the arguments do not fit. It does not perform the call.
func (s *Set) Refuses(name string, args []byte) (why Result, refuses bool) {
	e, ok := s.entry(name)
	if !ok {
		return Failed(s.unknown(name)), true
	}
	if _, err := e.check.check(args); err != nil {
		return Failed(err.Error()), true
	}
	return Result{}, false
}

func (s *Set) entry(name string) (entry, bool) {
	if s == nil {
		return entry{}, false
	}
	e, ok := s.byName[name]
	return e, ok
}

// fits checks the result of the tool.
func (e *entry) fits(text string) error {
	list, err := e.output.wrong(text)
	if err != nil {
		return fmt.Errorf("the result of %s is not what the tool promises: %w", e.tool.Name, err)
	}
	if list != nil {
		return fmt.Errorf("the result of %s is not what the tool promises:\n- %s", e.tool.Name, strings.Join(list, "\n- "))
	}
	return nil
}

func run(ctx context.Context, t *Tool, c *Call) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, err = "", fmt.Errorf("tool %s panicked: %v", t.Name, p)
		}
	}()
	return t.Run(ctx, c)
}

// Failed returns the result of a call that failed for that reason, cleaned and truncated.
func Failed(text string) Result {
	text, _ = clean.Truncate(clean.Text(text))
	if text == "" {
		text = "the tool failed without saying why"
	}
	return Result{Text: text, Error: true}
}

func (s *Set) unknown(name string) string {
	names := s.Names()
	if len(names) == 0 {
		return fmt.Sprintf("no tool %q; there are no tools", name)
	}
	hint := ""
	if near := cmp.Or(toolnames.Here(name, names), suggest.Closest(name, names)); near != "" {
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Sprintf("no tool %q; %sthe tools are: %s", name, hint, strings.Join(names, ", "))
}
