package arguments

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/workflow"
)

// Hint lists the inputs of a workflow on one line: the required ones first, the others in brackets.
func Hint(inputs []workflow.Input) string {
	var out, more []string
	for _, in := range inputs {
		s := transcript.Line(in.Name) + "=" + strings.ToUpper(in.Type)
		if len(in.Enum) > 0 {
			var words []string
			for _, v := range in.Enum {
				words = append(words, transcript.Line(fmt.Sprint(v)))
			}
			s = transcript.Line(in.Name) + "=" + strings.Join(words, "|")
		}
		if in.Required {
			out = append(out, s)
		} else {
			more = append(more, "["+s+"]")
		}
	}
	return strings.Join(append(out, more...), " ")
}

// Words splits a line as a shell does, without any expansion. A quote that is not closed goes to the end.
func Words(line string) []string {
	var out []string
	var b strings.Builder
	in, quote, last := false, rune(0), ' '
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			b.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, in = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\'' && (!in || last == '=')):
			quote, in = r, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if in {
				out = append(out, b.String())
				b.Reset()
			}
			in = false
		default:
			b.WriteRune(r)
			in = true
		}
		last = r
	}
	if in {
		out = append(out, b.String())
	}
	return out
}

// Line reads the inputs of a workflow from one line, as the command line does.
func Line(w *workflow.Workflow, line string) (json.RawMessage, error) {
	f := pflag.NewFlagSet(w.Name, pflag.ContinueOnError)
	f.Usage = func() {}
	var g Given
	f.VarP((*List)(&g.Pairs), "input", "i", "")
	AddFlags(f, func(name string) bool { return f.Lookup(name) != nil }, w)
	if err := f.Parse(Words(line)); err != nil {
		return nil, err
	}
	if g.Words, g.Flags = f.Args(), f; f.ArgsLenAtDash() >= 0 {
		g.Words = append(append(g.Words[:f.ArgsLenAtDash():f.ArgsLenAtDash()], "--"), g.Words[f.ArgsLenAtDash():]...)
	}
	return g.Inputs(w)
}
