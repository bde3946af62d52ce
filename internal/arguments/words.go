package arguments

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/workflow"
)

// List is a flag that may be repeated. Unlike pflag's own it leaves commas alone.
type List []string

func (l *List) String() string { return strings.Join(*l, " ") }

// Set implements [pflag.Value].
func (l *List) Set(s string) error { *l = append(*l, s); return nil }

// Type implements [pflag.Value].
func (l *List) Type() string { return "strings" }

// FirstWord finds the first argument that is not a flag or the value of one. An
// unknown flag is taken to have a value, unless what follows is a workflow.
func FirstWord(args []string, set workflow.Set, lookup func(string) *pflag.Flag) string {
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

// Days reads a duration that may be in days or weeks: 12h, 30d, 2w.
func Days(s string) (time.Duration, error) {
	for unit, hours := range map[string]float64{"d": 24, "w": 7 * 24} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			f, err := strconv.ParseFloat(n, 64)
			if err != nil || !(f >= 0 && f < 36500) {
				return 0, fmt.Errorf("want a duration such as 12h, 30d or 2w, got %q", s)
			}
			return time.Duration(f * hours * float64(time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("want a duration such as 12h, 30d or 2w, got %q", s)
	}
	return d, nil
}

// Retype returns the words of a command as they were typed, with another value of a flag.
func Retype(args []string, flag, value string) string {
	var out []string
	add := func(words ...string) { out = append(out, words...) }
	set := false
	for i := 0; i < len(args); i++ {
		word := args[i]
		switch {
		case word == flag && !set:
			i++
		case strings.HasPrefix(word, flag+"=") && !set:
		case word == "--" && !set:
			set = true
			add(flag, value, word)
		default:
			add(clean.Shell(word))
		}
	}
	if !set {
		add(flag, value)
	}
	return strings.Join(out, " ")
}
