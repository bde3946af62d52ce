package cli

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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/workflow"
)

const (
	inputFlag = "superstep-input" // annotates the flags that stand for inputs, with the name of the input
	listType  = "strings"         // the type of flags that may be repeated
)

// list is a flag that may be repeated. Unlike pflag's own it leaves commas alone.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }
func (l *list) Type() string       { return listType }

// inputValue is a flag that stands for an input. What it may be is decided when all inputs are known.
type inputValue struct {
	values []string // each time it was given
	kind   string
}

func (v *inputValue) String() string     { return strings.Join(v.values, " ") }
func (v *inputValue) Set(s string) error { v.values = append(v.values, s); return nil }
func (v *inputValue) Type() string       { return v.kind }

func flagName(input string) string { return strings.ReplaceAll(input, "_", "-") }

// completing reports whether a shell asks what a word may be.
func (a *app) completing() bool {
	args := a.opt.Args
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// prepare gives the command `run` a flag for each input of the workflow that the
// arguments name, if they name one.
func (a runCommand) prepare(root, run *cobra.Command) {
	args := a.opt.Args
	if a.completing() {
		args = args[1:]
	} else if len(args) > 0 && args[0] == "help" {
		args = args[1:]
	}
	cmd, rest, err := root.Find(args)
	if err != nil || cmd != run {
		return
	}
	set := a.host().Workflows()
	a.describeRun(run, set)
	name := firstWord(rest, set, func(name string) *pflag.Flag {
		if f := run.Flags().Lookup(name); f != nil {
			return f
		}
		return root.PersistentFlags().Lookup(name)
	})
	if w := a.described(name, set); w != nil {
		a.addInputFlags(run, root.PersistentFlags(), w)
	}
	// What is wrong is said when the command runs.
}

// described is the workflow that a word names, also one that may not be used yet; nil for none.
func (a runCommand) described(word string, set workflow.Set) *workflow.Workflow {
	if a.host().IsFile(word) {
		if h, name, err := a.host().At(word); err == nil {
			a.opened, word = h, name
		}
	} else if w, err := set.Find(word); err == nil {
		return w
	}
	if i, err := a.host().Look(cmp.Or(a.host().File(word), word)); err == nil && i.Recipe() != nil {
		return i.Sketch()
	}
	return nil
}

// firstWord finds the first argument that is not a flag or the value of one. An
// unknown flag is taken to have a value, unless what follows is a workflow.
func firstWord(args []string, set workflow.Set, lookup func(string) *pflag.Flag) string {
	short := map[byte]bool{'o': true, 'i': true} // those that take values
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			if i+1 < len(args) {
				return args[i+1]
			}
			return ""
		case !strings.HasPrefix(arg, "-") || arg == "-":
			return arg
		case strings.Contains(arg, "="):
		case strings.HasPrefix(arg, "--"):
			f := lookup(arg[2:])
			next := ""
			if i+1 < len(args) {
				next = args[i+1]
			}
			_, err := set.Find(next)
			if f != nil && f.NoOptDefVal == "" || f == nil && err != nil {
				i++
			}
		case len(arg) == 2 && short[arg[1]]:
			i++
		}
	}
	return ""
}

func (a runCommand) addInputFlags(run *cobra.Command, global *pflag.FlagSet, w *workflow.Workflow) {
	name := a.called(w)
	run.Use = "run " + name + " [free text | key=value ...]"
	run.Long = strings.TrimSpace(transcript.Clean(w.Description) + "\n\n" + strings.Join(inputLines(w.List()), "\n"))
	pairs := []string{"run " + name + sample(w), ""}
	if first := firstInput(w); first != "" {
		pairs = append(pairs, "run "+name+" "+first+" -o json", "", "run "+name+" --inputs inputs.json", "")
	}
	run.Example = examples(run.Root().Name(), append(pairs, "run "+name+" --plan", "what it would do")...)
	list := w.List()
	for i := range list {
		in := &list[i]
		name := flagName(in.Name)
		if run.Flags().Lookup(name) != nil || global.Lookup(name) != nil || name == "help" {
			continue // there is -i
		}
		f := run.Flags().VarPF(&inputValue{kind: typeWord(in.Type)}, name, "", transcript.Line(inputText(*in)))
		f.Annotations = map[string][]string{inputFlag: {in.Name}}
		if in.Type == "boolean" {
			f.NoOptDefVal = "true"
		}
	}
}

// called is how the user names a workflow: the file of a recipe, or its name.
func (a runCommand) called(w *workflow.Workflow) string {
	if file := a.host().File(w.Name); file != "" {
		return quote(file)
	}
	return w.Name
}

// gathered is what the command line says about inputs.
type gathered struct {
	words []string // free text and key=value
	pairs []string // of -i
	file  string   // of --inputs
	flags *pflag.FlagSet
	model string
}

// names says whether a word gives an input of a name.
func (g *gathered) names(input string) bool {
	for _, word := range g.words {
		if word == "--" {
			return false
		}
		if strings.HasPrefix(word, input+"=") {
			return true
		}
	}
	return false
}

// takesModel says whether a workflow wants --model as its input of that name. A recipe that has such an
// input means something of its own by it.
func takesModel(w *workflow.Workflow) bool {
	return w.Pin == nil && slices.ContainsFunc(w.List(), func(in workflow.Input) bool { return in.Name == "model" })
}

// inputs makes the inputs of a run. What is given by word lies over what is in a file.
// All faults are reported at once.
func (a runCommand) inputs(w *workflow.Workflow, g *gathered) (json.RawMessage, error) {
	var problems []string
	named := map[string][]string{}
	for _, p := range g.pairs {
		key, value, ok := strings.Cut(p, "=")
		if !ok || key == "" {
			problems = append(problems, fmt.Sprintf("-i %s: use key=value", quote(p)))
			continue
		}
		named[key] = append(named[key], value)
	}
	g.flags.VisitAll(func(f *pflag.Flag) {
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
	file, err := a.inputsFile(g.file)
	if err != nil {
		problems = append(problems, err.Error())
	}
	if g.model != "" && takesModel(w) && named["model"] == nil && file["model"] == nil && !g.names("model") {
		named["model"] = []string{g.model}
	}

	words, err2 := a.piped(g.words)
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
func (a runCommand) piped(words []string) ([]string, error) {
	i := slices.Index(words, "-")
	if end := slices.Index(words, "--"); i < 0 || end >= 0 && end < i {
		return words, nil
	}
	if a.set.noInput {
		return words, usage("-: standard input is not read with --no-input")
	}
	text, err := readInputs(a.opt.Stdin)
	if err != nil {
		return words, usage(fmt.Sprintf("-: standard input: %v", err))
	}
	if strings.TrimSpace(string(text)) == "" {
		return words, usage("-: standard input is empty")
	}
	out := slices.Concat(words[:i], words[i+1:])
	if !slices.Contains(out, "--") {
		out = append(out, "--")
	}
	return append(out, strings.TrimSpace(string(text))), nil
}

// inputsFile reads a JSON object from a file, or from standard input for "-".
func (a runCommand) inputsFile(name string) (map[string]json.RawMessage, error) {
	if name == "" {
		return nil, nil
	}
	var raw []byte
	where := "standard input"
	if name == "-" {
		if a.set.noInput {
			return nil, usage("--inputs -: standard input is not read with --no-input; name a file")
		}
		var err error
		if raw, err = readInputs(a.opt.Stdin); err != nil { // to its end; a signal ends the process, since nothing runs yet
			return nil, usage(fmt.Sprintf("--inputs: standard input: %v", err))
		}
	} else {
		where = name
		if abs, err := filepath.Abs(name); err == nil {
			where = abs
		}
		f, err := os.Open(where)
		if errors.Is(err, os.ErrNotExist) {
			return nil, usage(fmt.Sprintf("--inputs: there is no file %s", where))
		}
		if err == nil {
			defer f.Close()
			raw, err = readInputs(f)
		}
		if err != nil {
			return nil, usage(fmt.Sprintf("--inputs: %s: %v; name a JSON file", where, reason(err)))
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
	return nil, usage(fmt.Sprintf("--inputs: %s: want a JSON object: %v", at, err))
}
