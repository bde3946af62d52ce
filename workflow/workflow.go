// Package workflow gives a piece of work a name, typed inputs and an output, so that hosts can list
// it, start it from a command line and resume it after a crash.
package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A Workflow is a definition. It is a value: build it, hand it over, never change it after.
type Workflow struct {
	Name        string
	Aliases     []string // other names it is found by, where no workflow has them as its name
	Description string
	Inputs      *jsonschema.Schema // an object; the order of its properties is the order for people
	// NoModel is set if the workflow calls no language model.
	NoModel bool
	// NeedsModel is set if the workflow needs a model that can judge and write, so that the offline
	// model is not enough.
	NeedsModel bool
	// Uses names the workflows that it runs by name; see graph.Call.
	Uses []string
	// Prepare returns the inputs with which a run begins, given inputs that fit the schema. For
	// instance, it makes a relative path absolute, since the run may be resumed elsewhere. If no
	// such run is possible, it returns an error. It may be called several times, also with its own
	// result, and is never called for a resumed run. If nil, the inputs stay as they are.
	Prepare func(inputs json.RawMessage) (json.RawMessage, error)
	// Pin returns the definition of a run with these inputs, if it may change before the run has
	// ended. The run stores it and is executed with what Restore makes of it, now and whenever it
	// is resumed. Inputs are those that Settle returns. If nil, nothing is pinned.
	Pin func(inputs json.RawMessage) (json.RawMessage, error)
	// Restore returns the workflow that a run has pinned, however this one has changed since. It is
	// required if Pin is set.
	Restore func(pinned json.RawMessage) (*Workflow, error)
	// Budget is the default budget of a run; nil means no limits.
	Budget *runlog.Budget
	// Run does the work or continues it: the journal knows the progress. The inputs fit the schema.
	// It is called once at a time per run.
	Run func(ctx context.Context, e *Exec) (*Result, error)
	// Edit converts a user's replacement for the result of a node into an update, for forks. If
	// nil, the replacement is the update.
	Edit func(node string, given json.RawMessage) (update json.RawMessage, err error)
	// Adopt creates the beginning of a run with these inputs and this pinned definition from a run
	// of another version of the workflow. If nil, that is not supported.
	Adopt func(inputs, pinned json.RawMessage, old *Past) (*graph.Forked, error)
	// Continue returns the inputs of a run that continues, with a message, the conversation of another run, which is given as its
	// records. That run may be of any workflow. If nil, runs of this workflow continue no conversation.
	Continue func(records iter.Seq2[runlog.Record, error], message string) (json.RawMessage, error)
	// Flow returns the graph of a run with these inputs, to read the run's history and states from
	// its log and to fork it. It has no side effects, and may be called at any time. It is nil if
	// the workflow is not one graph.
	Flow func(inputs json.RawMessage) (graph.Reading, error)
}

// A Past holds the results of a run of another version.
type Past struct {
	Inputs, Pinned json.RawMessage
	State          json.RawMessage   // as of its last superstep
	Done           []json.RawMessage // the updates of its tasks after that, by whom they may be
}

// An OpaqueError reports that the runs of a workflow cannot be inspected.
type OpaqueError struct{ Name string }

func (e *OpaqueError) Error() string {
	return fmt.Sprintf("workflow %q does not say which graph it runs, so its runs have no states to show and cannot be forked; set its Flow", e.Name)
}

// An Exec is one execution of a workflow.
type Exec struct {
	Inputs  json.RawMessage
	Journal *journal.Journal
	Graph   graph.RunOptions // what the host wants of graphs; Journal is set
	Nested  bool             // it runs within a task of another workflow, whose run the journal is of
}

// A Result is what a workflow ends with.
type Result struct {
	Output  json.RawMessage
	Steps   int
	Skipped []string // the tasks that failed and were skipped
}

// New creates a workflow from a graph. In is a struct: its fields are the inputs, its
// json tags their names, its jsonschema tags their descriptions; a field without
// omitempty is required. Begin makes the first state of them, and end makes the
// output, which encodes as JSON, of the last state.
func New[In, S, U, Out any](name, description string, flow *graph.Flow[S, U], begin func(In) (S, error), end func(S) (Out, error)) (*Workflow, error) {
	w, err := Func(name, description, func(ctx context.Context, in In, e *Exec) (out Out, err error) {
		state, err := begin(in)
		if err != nil {
			return out, err
		}
		if state, err = flow.Run(ctx, state, &e.Graph); err != nil {
			return out, err
		}
		return end(state)
	})
	if err != nil {
		return nil, err
	}
	w.Uses = flow.Uses()
	w.Flow = func(json.RawMessage) (graph.Reading, error) { return flow, nil }
	return w, nil
}

// Func is New for a workflow that builds its graph from its inputs, and runs it with the options
// Graph of the Exec. If it always runs the same graph, set Flow of the result.
// An output that is not zero, returned with an error, is the output of the run so far.
// A field of In whose description begins with "set by the run itself" is no input of callers: only Prepare, and
// Continue, set it.
func Func[In, Out any](name, description string, run func(ctx context.Context, in In, e *Exec) (Out, error)) (*Workflow, error) {
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, fmt.Errorf("workflow %q: its inputs: %w", name, err)
	}
	for field, p := range schema.Properties {
		if strings.HasPrefix(p.Description, "set by the run itself") {
			delete(schema.Properties, field)
			schema.PropertyOrder = slices.DeleteFunc(schema.PropertyOrder, func(name string) bool { return name == field })
		}
	}
	w := &Workflow{Name: name, Description: description, Inputs: schema}
	w.Run = func(ctx context.Context, e *Exec) (*Result, error) {
		var in In
		if err := json.Unmarshal(orEmpty(e.Inputs), &in); err != nil {
			return nil, fmt.Errorf("workflow %q: its inputs: %w", name, err)
		}
		res, own := &Result{}, *e
		own.Graph.Ended = func(steps int, skipped []string) { res.Steps, res.Skipped = steps, skipped }
		out, err := run(ctx, in, &own)
		if err != nil && reflect.ValueOf(&out).Elem().IsZero() {
			return res, err
		}
		b, unencodable := json.Marshal(out)
		if err == nil && unencodable != nil {
			err = fmt.Errorf("workflow %q: its output: %w", name, unencodable)
		}
		res.Output = b
		return res, err
	}
	return w, nil
}

// orEmpty returns the given object, or an empty one.
func orEmpty(inputs json.RawMessage) json.RawMessage {
	if len(bytes.TrimSpace(inputs)) == 0 {
		return json.RawMessage("{}")
	}
	return inputs
}

// An InputsError lists everything that is wrong with the inputs of a run.
type InputsError struct {
	Workflow string
	Problems []string
}

func (e *InputsError) Error() string {
	if len(e.Problems) == 1 {
		return fmt.Sprintf("workflow %q: %s", e.Workflow, e.Problems[0])
	}
	return fmt.Sprintf("workflow %q: its inputs have %d mistakes:\n  - %s", e.Workflow, len(e.Problems), strings.Join(e.Problems, "\n  - "))
}

// FailureCode returns the code of runs that fail with the error.
func (e *InputsError) FailureCode() string { return "inputs" }

// An Input describes one input for users.
type Input struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"` // "string", "integer", "number", "boolean", or another of JSON Schema
	Description string          `json:"description,omitempty"`
	Required    bool            `json:"required,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	Enum        []any           `json:"enum,omitempty"` // the values that it can have, nil for any
}

// List returns the inputs in their order.
func (w *Workflow) List() []Input {
	if w.Inputs == nil {
		return nil
	}
	names := slices.Clone(w.Inputs.PropertyOrder)
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(w.Inputs.Properties))
	}
	var out []Input
	for _, n := range names {
		p := w.Inputs.Properties[n]
		out = append(out, Input{Name: n, Type: schemaType(p), Description: p.Description, Required: slices.Contains(w.Inputs.Required, n),
			Default: p.Default, Enum: p.Enum})
	}
	return out
}

func schemaType(s *jsonschema.Schema) string {
	if s.Type != "" {
		return s.Type
	}
	for _, t := range s.Types {
		if t != "null" {
			return t
		}
	}
	return "any"
}

// Parse reads inputs from words as a command line has them: "key=value" for an input of
// that name, anything else for the first required
// input that is not given by name, or, if no input is required, for the only one that is a
// text. A word that begins like "name=" is never text, so that a misspelt input is no question. After the word
// "--" everything is text. Values are read as the type of their input and never bent to
// fit. A list is given as JSON, or item by item by giving its name several times; then the
// items are texts if the schema says nothing else. What is given lies over base, inputs as JSON such as those of a
// file. All faults are reported at once, as an *InputsError. Prepare is not called; see Settle.
func (w *Workflow) Parse(words []string, named map[string][]string, base map[string]json.RawMessage) (json.RawMessage, error) {
	inputs := w.List()
	names := make([]string, len(inputs))
	for i := range inputs {
		names[i] = inputs[i].Name
		inputs[i].Required = inputs[i].Required && base[names[i]] == nil
	}
	given := map[string][]string{}
	var free []string
	slips := map[string]bool{}
	for i, word := range words {
		if word == "--" {
			free = append(free, words[i+1:]...)
			break
		}
		key, value, ok := strings.Cut(word, "=")
		switch {
		case ok && slices.Contains(names, key):
			given[key] = append(given[key], value)
		case ok && meant(key, names):
			given[key] = append(given[key], value)
			slips[key] = true
		default:
			free = append(free, word)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(named)) {
		given[key] = append(given[key], named[key]...)
	}
	var problems []string
	if text := strings.Join(free, " "); len(free) > 0 {
		if name := textInput(inputs, given); name != "" {
			given[name] = []string{text}
		} else {
			problems = append(problems, fmt.Sprintf("nothing to do with %q: %s", text, freeHint(inputs, given)))
		}
	}
	sizes := map[string]int{}
	for key, texts := range given {
		for _, text := range texts {
			sizes[key] += len(text)
		}
	}
	if why := tooLarge(sizes); why != "" {
		return nil, &InputsError{w.Name, []string{why}}
	}
	values := map[string]any{}
	for name, raw := range base {
		values[name] = raw
	}
	for _, in := range inputs {
		texts, ok := given[in.Name]
		if !ok {
			continue
		}
		delete(given, in.Name)
		v, err := parseValues(w.Inputs.Properties[in.Name], texts)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", in.Name, err))
			continue
		}
		values[in.Name] = v
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		hint := suggest.Hint(key, names)
		switch {
		case hint != "":
		case len(names) == 0:
			hint = "; it takes no inputs"
		default:
			hint = "; known: " + strings.Join(names, ", ")
		}
		problem := fmt.Sprintf("unknown input %q%s", key, hint)
		if slips[key] && len(names) > 0 {
			problem += " (for text with an equals sign, put -- before it)"
		}
		problems = append(problems, problem)
	}
	b, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	return b, w.check(b, problems)
}

// meant reports whether the part of a word before an equals sign reads like the name of an input. Ordinary text has
// equals signs too, but rarely behind a first word of its own, and of two letters only by chance one that is like a name.
func meant(key string, names []string) bool {
	return (len(key) > 2 || len(key) == 2 && suggest.Closest(key, names) != "") && !strings.ContainsFunc(key, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	})
}

// textInput returns the input that free text is for, "" for none.
func textInput(inputs []Input, given map[string][]string) string {
	var texts []string
	required := false
	for _, in := range inputs {
		_, has := given[in.Name]
		if in.Required && !has {
			return in.Name
		}
		required = required || in.Required
		if in.Type == "string" {
			texts = append(texts, in.Name)
		}
	}
	if required || len(texts) != 1 || given[texts[0]] != nil {
		return ""
	}
	return texts[0]
}

// freeHint returns how to pass free text if no input accepts it.
func freeHint(inputs []Input, given map[string][]string) string {
	var open []string
	required := false
	for _, in := range inputs {
		required = required || in.Required
		if given[in.Name] == nil && in.Type == "string" {
			open = append(open, in.Name+`="…"`)
		}
	}
	why := "no input is required"
	if required {
		why = "every required input is given"
	}
	const most = 6
	switch {
	case len(inputs) == 0:
		return "it takes no inputs"
	case len(open) == 0:
		return why + "; use key=value"
	case len(open) > most:
		open = append(open[:most], "…")
	}
	return why + "; say which one it is: " + strings.Join(open, " or ")
}

// Check reports everything that is wrong with inputs, as an *InputsError, or why
// Prepare refuses them.
func (w *Workflow) Check(inputs json.RawMessage) error {
	_, err := w.Settle(inputs)
	return err
}

// Settle returns the inputs with which a run begins: the given ones, checked and prepared by
// Prepare.
func (w *Workflow) Settle(inputs json.RawMessage) (json.RawMessage, error) {
	if err := w.check(inputs, nil); err != nil || w.Prepare == nil {
		return inputs, err
	}
	return w.Prepare(orEmpty(inputs))
}

func (w *Workflow) check(inputs json.RawMessage, problems []string) error {
	if why := largeInputs(inputs); why != "" {
		return &InputsError{w.Name, append(problems, why)}
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(orEmpty(inputs), &values); err != nil {
		return &InputsError{w.Name, append(problems, fmt.Sprintf("want a JSON object with finite numbers: %v", strict.Words(inputs, err)))}
	}
	known := w.List()
	names := make([]string, len(known))
	for i, in := range known {
		names[i] = in.Name
		if _, ok := values[in.Name]; !ok && in.Required && !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, in.Name+": ") }) {
			problems = append(problems, fmt.Sprintf("%s is required%s", in.Name, described(in)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(names, key) {
			problems = append(problems, fmt.Sprintf("unknown input %q%s", key, suggest.Hint(key, names)))
			continue
		}
		problems = append(problems, fits(key, w.Inputs.Properties[key], values[key])...)
	}
	if len(problems) > 0 {
		return &InputsError{w.Name, problems}
	}
	return nil
}

func described(in Input) string {
	if in.Description == "" {
		return ""
	}
	return " (" + in.Description + ")"
}

// A Set is a list of workflows by name.
type Set []*Workflow

// Find returns the workflow of a name, or an error that suggests another.
func (s Set) Find(name string) (*Workflow, error) {
	var names []string
	for _, w := range s {
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	for _, w := range s {
		if slices.Contains(w.Aliases, name) {
			return w, nil
		}
		names = append(names, w.Aliases...)
	}
	return nil, &UnknownError{name, suggest.Hint(name, names)}
}

// An UnknownError reports that there is no workflow of a name.
type UnknownError struct{ Name, hint string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("there is no workflow %q%s", e.Name, e.hint)
}

// Validate reports every mistake in the set at once.
func (s Set) Validate() error {
	var errs []error
	for i, w := range s {
		switch {
		case w == nil || w.Run == nil || w.Name == "":
			errs = append(errs, fmt.Errorf("workflow %d has no name or no function", i))
		case slices.ContainsFunc(s[:i], func(o *Workflow) bool { return o != nil && o.Name == w.Name }):
			errs = append(errs, fmt.Errorf("workflow %q is there twice", w.Name))
		case (w.Pin == nil) != (w.Restore == nil):
			errs = append(errs, fmt.Errorf("workflow %q has one of Pin and Restore; they go together", w.Name))
		}
	}
	s = slices.DeleteFunc(slices.Clone(s), func(w *Workflow) bool { return w == nil })
	for _, problem := range slices.Concat(s.clashes(), s.uses()) {
		errs = append(errs, errors.New(problem))
	}
	return errors.Join(errs...)
}

// clashes reports the names that stand for two workflows: an alias of several, or names and aliases
// that differ only in case. If an alias is the name of another workflow, the name wins.
func (s Set) clashes() []string {
	var problems []string
	type owner struct {
		w    *Workflow
		name string
	}
	taken := map[string]owner{}
	claim := func(w *Workflow, name string) {
		folded := strings.ToLower(name)
		switch first, ok := taken[folded]; {
		case !ok:
			taken[folded] = owner{w, name}
		case first.w.Name == w.Name: // reported as twice
		case first.name == name && name == first.w.Name: // the name wins
		case first.name == name:
			problems = append(problems, fmt.Sprintf("workflows %q and %q have the alias %q in common", first.w.Name, w.Name, name))
		default:
			problems = append(problems, fmt.Sprintf("%q of workflow %q and %q of workflow %q differ in case only", first.name, first.w.Name, name, w.Name))
		}
	}
	for _, w := range s {
		claim(w, w.Name)
	}
	for _, w := range s {
		for _, alias := range w.Aliases {
			claim(w, alias)
		}
	}
	return problems
}

// Unchanged returns a *graph.ChangedError if the definition of a run has changed since it began,
// unless that is allowed or the run is replayed.
func (e *Exec) Unchanged(name string, before, now map[string]string) error {
	diff := changes(before, now)
	if len(diff) == 0 || e.Graph.AllowChange {
		return nil
	}
	return e.Journal.Afresh(func() error { return &graph.ChangedError{Graph: name, Diff: diff} })
}

// changes returns the parts of a run that have changed or are gone since it began, as lines of a
// diff. New parts do not affect a run that began without them. A part has a digest.
func changes(before, now map[string]string) []string {
	var diff []string
	for _, part := range slices.Sorted(maps.Keys(before)) {
		switch digest, ok := now[part]; {
		case !ok:
			diff = append(diff, "- "+part+" (gone, or not trusted)")
		case digest != before[part]:
			diff = append(diff, "~ "+part)
		}
	}
	return diff
}
