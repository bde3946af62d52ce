// Package arguments parses command lines, above all the inputs of a workflow: free text, key=value, flags and files. It also describes how to pass them.
package arguments

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/workflow"
)

// inputFlag annotates the flags that stand for inputs, with the name of the input.
const inputFlag = "superstep-input"

// IsInput reports whether a flag sets an input.
func IsInput(f *pflag.Flag) bool { return f.Annotations[inputFlag] != nil }

// inputValue is a flag that sets an input. Its value is checked once all inputs are known.
type inputValue struct {
	values []string // each time it was given
	kind   string
}

func (v *inputValue) String() string     { return strings.Join(v.values, " ") }
func (v *inputValue) Set(s string) error { v.values = append(v.values, s); return nil }
func (v *inputValue) Type() string       { return v.kind }

func flagName(input string) string { return strings.ReplaceAll(input, "_", "-") }

// AddFlags adds a flag for each input of a workflow whose name is not taken.
func AddFlags(flags *pflag.FlagSet, taken func(name string) bool, w *workflow.Workflow) {
	list := w.List()
	for i := range list {
		in := &list[i]
		name := flagName(in.Name)
		if taken(name) {
			continue // there is -i
		}
		f := flags.VarPF(&inputValue{kind: typeWord(in.Type)}, name, "", transcript.Line(inputText(*in)))
		f.Annotations = map[string][]string{inputFlag: {in.Name}}
		if in.Type == "boolean" {
			f.NoOptDefVal = "true"
		}
	}
}

// Given holds the inputs on a command line.
type Given struct {
	Words []string       // free text and key=value
	Pairs []string       // of -i
	File  string         // of --inputs
	Dir   string         // the folder that File is relative to; "" for that of the process
	Flags *pflag.FlagSet // those of AddFlags are among them
	Model string         // for workflows that take the model as an input, "" for none
	Stdin io.Reader      // nil if it must not be read
}

// names reports whether a word sets the input of a given name.
func (g *Given) names(input string) bool {
	for _, word := range g.Words {
		if word == "--" {
			return false
		}
		if strings.HasPrefix(word, input+"=") {
			return true
		}
	}
	return false
}

// TakesModel reports whether a workflow has an input named model, which --model then sets. A recipe that
// has such an input means something of its own by it.
func TakesModel(w *workflow.Workflow) bool {
	return w.Pin == nil && slices.ContainsFunc(w.List(), func(in workflow.Input) bool { return in.Name == "model" })
}

// Inputs reads the inputs of a run. Inputs on the command line override the inputs in a file. All
// faults are reported at once.
func (g *Given) Inputs(w *workflow.Workflow) (json.RawMessage, error) {
	var problems []string
	named := map[string][]string{}
	for _, p := range g.Pairs {
		key, value, ok := strings.Cut(p, "=")
		if !ok || key == "" {
			problems = append(problems, fmt.Sprintf("-i %s: use key=value", clean.Shell(p)))
			continue
		}
		named[key] = append(named[key], value)
	}
	g.Flags.VisitAll(func(f *pflag.Flag) {
		in := f.Annotations[inputFlag]
		if in == nil || !f.Changed {
			return
		}
		if len(named[in[0]]) > 0 {
			problems = append(problems, fmt.Sprintf("--%s and -i %s are both given", f.Name, in[0]))
		}
		v, ok := f.Value.(*inputValue)
		if ok {
			named[in[0]] = v.values
		}
	})
	file, err := g.readFile()
	if err != nil {
		problems = append(problems, err.Error())
	}
	if g.Model != "" && TakesModel(w) && named["model"] == nil && file["model"] == nil && !g.names("model") {
		named["model"] = []string{g.Model}
	}

	words, err2 := g.piped()
	if err2 != nil {
		problems = append(problems, err2.Error())
	}
	wanted := w
	if err != nil && w.Inputs != nil { // what is missing may be in the file
		schema := *w.Inputs
		schema.Required, wanted = nil, &workflow.Workflow{Name: w.Name, Inputs: &schema}
	}
	inputs, err := wanted.Parse(words, named, file)
	if wrong, ok := errors.AsType[*workflow.InputsError](err); ok {
		problems = append(problems, wrong.Problems...)
	} else if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, &workflow.InputsError{Workflow: w.Name, Problems: problems}
	}
	return inputs, nil
}

// piped puts what standard input has into the place of the word "-".
func (g *Given) piped() ([]string, error) {
	words := g.Words
	i := slices.Index(words, "-")
	if end := slices.Index(words, "--"); i < 0 || end >= 0 && end < i {
		return words, nil
	}
	if g.Stdin == nil {
		return words, errors.New("-: standard input is not read with --no-input")
	}
	text, err := readInputs(g.Stdin)
	if err != nil {
		return words, fmt.Errorf("-: standard input: %w", err)
	}
	if strings.TrimSpace(string(text)) == "" {
		return words, errors.New("-: standard input is empty")
	}
	out := slices.Concat(words[:i], words[i+1:])
	if !slices.Contains(out, "--") {
		out = append(out, "--")
	}
	return append(out, strings.TrimSpace(string(text))), nil
}

// readFile reads a JSON object from a file, or from standard input for "-".
func (g *Given) readFile() (map[string]json.RawMessage, error) {
	name := g.File
	if name == "" {
		return nil, nil
	}
	var raw []byte
	where := "standard input"
	if name == "-" {
		if g.Stdin == nil {
			return nil, errors.New("--inputs -: standard input is not read with --no-input; name a file")
		}
		var err error
		if raw, err = readInputs(g.Stdin); err != nil { // to its end; a signal ends the process, since nothing runs yet
			return nil, fmt.Errorf("--inputs: standard input: %w", err)
		}
	} else {
		if where = name; !filepath.IsAbs(name) {
			where = filepath.Join(g.Dir, name)
		}
		f, err := os.Open(where)
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("--inputs: there is no file %s", where)
		}
		if err == nil {
			defer f.Close()
			raw, err = readInputs(f)
		}
		if err != nil {
			return nil, fmt.Errorf("--inputs: %s: %w; name a JSON file", where, reason(err))
		}
	}
	return object(raw, where)
}

// readInputs reads inputs to their end, and no more than a run may have.
func readInputs(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, workflow.MaxInputs+1))
	if err == nil && len(raw) > workflow.MaxInputs {
		err = fmt.Errorf("it is over %d MiB, and the inputs of a run may not have more in all: pass a file's path as an input instead", workflow.MaxInputs>>20)
	}
	return raw, err
}

// object decodes the inputs of a file.
func object(raw []byte, where string) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(raw))
	err := d.Decode(&m)
	if err == nil && m == nil {
		err = errors.New("it is null")
	}
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("there is something after the object")
		}
	}
	if err == nil {
		return m, nil
	}
	at := where
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := raw[:min(int(syntax.Offset), len(raw))]
		line := bytes.Count(before, []byte("\n")) + 1
		at = fmt.Sprintf("%s:%d:%d", where, line, len(before)-bytes.LastIndexByte(before, '\n')-1)
	}
	return nil, fmt.Errorf("--inputs: %s: want a JSON object: %w", at, err)
}

// Sample returns an example of a workflow's inputs: the required ones, or else the first.
func Sample(w *workflow.Workflow) string {
	if w.Name == "research" { // it needs something to search, of which there are several kinds
		return ` "the question" --docs .`
	}
	if inputs := w.List(); len(inputs) > 0 {
		return cmp.Or(Required(w), " "+assignment(&inputs[0]))
	}
	return ""
}

// Required shows how the inputs are given that have to be.
func Required(w *workflow.Workflow) string {
	var b strings.Builder
	inputs := w.List()
	first := true
	for i := range inputs {
		in := &inputs[i]
		switch {
		case !in.Required:
		case first && in.Type == "string" && len(in.Enum) == 0:
			fmt.Fprintf(&b, " %q", "the "+in.Name)
			first = false
		default:
			b.WriteString(" " + assignment(in))
		}
	}
	return b.String()
}

// First returns an example that passes one input by its name: the first required input, or else the first. It returns "" if the workflow has no inputs.
func First(w *workflow.Workflow) string {
	inputs := w.List()
	if len(inputs) == 0 {
		return ""
	}
	i := max(0, slices.IndexFunc(inputs, func(in workflow.Input) bool { return in.Required }))
	return assignment(&inputs[i])
}

// assignment shows how an input is given by its name, with a value that fits.
func assignment(in *workflow.Input) string {
	value := map[string]string{"integer": "3", "number": "0.5", "boolean": "true", "array": `'["one","two"]'`, "object": `'{"key":"value"}'`}[in.Type]
	switch {
	case len(in.Enum) > 0:
		value = clean.Shell(valueText(in.Enum[0]))
	case value == "":
		value = `"…"`
	}
	return in.Name + "=" + value
}

// Lines returns a table of the inputs of a workflow.
func Lines(inputs []workflow.Input) []string {
	if len(inputs) == 0 {
		return []string{"Inputs:", "  none"}
	}
	table := [][]string{{"Inputs:"}}
	for _, in := range inputs {
		table = append(table, []string{fmt.Sprintf("  %-12s", transcript.Line(in.Name)), fmt.Sprintf("%-8s %s", typeWord(in.Type), transcript.Line(inputText(in)))})
	}
	return inwords.Align(table, 34)
}

// typeWord returns the type of an input as recipes and people call it.
func typeWord(kind string) string {
	if kind == "array" {
		return "list"
	}
	return kind
}

// inputText describes an input to users.
func inputText(in workflow.Input) string {
	text := in.Description
	if len(in.Enum) > 0 {
		var words []string
		for _, v := range in.Enum {
			words = append(words, valueText(v))
		}
		text += " (" + strings.Join(words, ", ") + ")"
	}
	switch {
	case in.Required:
		text += " (required)"
	case len(in.Default) > 0:
		var v any
		if json.Unmarshal(in.Default, &v) == nil {
			text += " (default " + valueText(v) + ")"
		}
	}
	return strings.TrimSpace(text)
}

// valueText returns a JSON value as it is typed: a text as it is.
func valueText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// reason is why something could not be done with a file, without the file.
func reason(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}
