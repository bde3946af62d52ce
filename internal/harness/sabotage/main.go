// Sabotage checks that the tests detect missing safeguards: it removes the safeguards from the
// code, one at a time and in a copy of the module, and expects the tests to fail.
//
//	go run ./sabotage                 all of them
//	go run ./sabotage -only 'sqlite'  those whose name fits the expression
//	go run ./sabotage -list           what there is
//
// It runs in its own module's directory, internal/harness, and exits with 1 if less than 95 % are noticed. A safeguard whose text is no longer found
// in the code is a mistake in the table, and so is a test that fails without sabotage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sabotage:", err)
		os.Exit(1)
	}
}

// goal is the least part of the mutants that have to be noticed, in percent.
const goal = 95

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("sabotage", flag.ContinueOnError)
	only := flags.String("only", "", "an `expression` that the names of the mutants fit")
	list := flags.Bool("list", false, "print the names and do nothing")
	root := flags.String("root", filepath.Join("..", ".."), "the `directory` of the module")
	jobs := flags.Int("jobs", 2, "`how many` copies are tested side by side")
	table := flags.String("table", "", "a `file` to write the result to, as Markdown")
	if err := flags.Parse(args); err != nil {
		return err
	}
	fits, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	var todo []mutant
	for _, m := range mutants() {
		if fits.MatchString(m.name) {
			todo = append(todo, m)
		}
	}
	if *list {
		for _, m := range todo {
			fmt.Fprintln(out, m.name)
		}
		return nil
	}
	if len(todo) == 0 {
		return fmt.Errorf("no mutant fits %q; -list shows them", *only)
	}
	s := &saboteur{ctx: ctx, out: out, root: *root}
	results, err := s.all(todo, max(*jobs, 1))
	if err != nil {
		return err
	}
	return report(out, *table, results)
}

// A mutant is the code without one of its safeguards.
type mutant struct {
	name     string
	file     string // from the root of the module
	old, new string // old is there exactly once
	tests    []test // the first that fails is enough
}

// A test is arguments of go test.
type test string

// apply returns the file without the safeguard.
func (m *mutant) apply(root string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w; correct the table of mutants", m.name, err)
	}
	if n := strings.Count(string(b), m.old); n != 1 {
		return nil, fmt.Errorf("%s: %s has its text %d times; correct the table of mutants:\n%s", m.name, m.file, n, m.old)
	}
	return []byte(strings.Replace(string(b), m.old, m.new, 1)), nil
}

// A result is what became of a mutant.
type result struct {
	mutant
	red  bool
	by   string // the test that noticed it
	took time.Duration
	err  error // why nothing can be said
}

type saboteur struct {
	ctx  context.Context
	out  io.Writer
	root string
	mu   sync.Mutex
}

func (s *saboteur) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

// all tests the mutants in copies that are reused. Before that it tests the copies without
// sabotage.
func (s *saboteur) all(todo []mutant, jobs int) ([]result, error) {
	var copies []string
	defer func() {
		for _, dir := range copies {
			_ = os.RemoveAll(dir)
		}
	}()
	for range jobs {
		dir, err := os.MkdirTemp("", "superstep-sabotage-")
		if err != nil {
			return nil, err
		}
		copies = append(copies, dir)
		if err := copyModule(s.root, dir); err != nil {
			return nil, err
		}
	}
	if err := s.sound(copies, todo); err != nil {
		return nil, err
	}
	results := make([]result, len(todo))
	s.share(len(todo), copies, func(dir string, i int) {
		results[i] = s.try(dir, &todo[i])
	})
	return results, s.ctx.Err()
}

// share does n things, each with one of the copies to itself.
func (s *saboteur) share(n int, copies []string, do func(dir string, i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for _, dir := range copies {
		wg.Go(func() {
			for i := range next {
				if s.ctx.Err() == nil {
					do(dir, i)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// sound checks that the tests pass as long as nothing is missing.
func (s *saboteur) sound(copies []string, todo []mutant) error {
	seen := map[test]bool{}
	var tests []test
	for i := range todo {
		for _, t := range todo[i].tests {
			if !seen[t] {
				seen[t] = true
				tests = append(tests, t)
			}
		}
	}
	errs := make([]error, len(tests))
	s.share(len(tests), copies, func(dir string, i int) {
		if red, out := s.red(dir, tests[i], 10*time.Minute); red {
			errs[i] = fmt.Errorf("`go test %s` fails without sabotage:\n%s", tests[i], tail(out))
		}
	})
	return errors.Join(errs...)
}

// try tests one mutant.
func (s *saboteur) try(dir string, m *mutant) (r result) {
	r.mutant = *m
	begin := time.Now()
	defer func() {
		r.took = time.Since(begin)
		s.say("%-8s %s (%s, %s)", verdict(&r), m.name, m.file, r.took.Round(time.Second))
	}()
	file := filepath.Join(dir, filepath.FromSlash(m.file))
	was, err := os.ReadFile(file)
	if err != nil {
		r.err = err
		return r
	}
	changed, err := m.apply(dir)
	if err != nil {
		r.err = err
		return r
	}
	if r.err = os.WriteFile(file, changed, 0o600); r.err != nil {
		return r
	}
	defer func() { r.err = errors.Join(r.err, os.WriteFile(file, was, 0o600)) }()
	if strings.HasSuffix(m.file, ".go") {
		if out, err := s.command(dir, "build", "./"+filepath.ToSlash(filepath.Dir(m.file))).CombinedOutput(); err != nil {
			r.err = fmt.Errorf("%s: it does not even compile: %s", m.name, tail(out))
			return r
		}
	}
	for _, t := range m.tests {
		if red, _ := s.red(dir, t, 3*time.Minute); red { // a test that hangs has noticed it too
			r.red, r.by = true, string(t)
			return r
		}
	}
	return r
}

// red reports whether a test run fails.
func (s *saboteur) red(dir string, t test, limit time.Duration) (bool, []byte) {
	args := append([]string{"test", "-count=1", "-failfast", "-timeout=" + limit.String()}, strings.Fields(string(t))...)
	out, err := s.command(dir, args...).CombinedOutput()
	return err != nil && s.ctx.Err() == nil, out
}

func (s *saboteur) command(dir string, args ...string) *exec.Cmd {
	c := exec.CommandContext(s.ctx, "go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "SUPERSTEP_FAULTS=", "PWD="+dir)
	return c
}

func verdict(r *result) string {
	switch {
	case r.err != nil:
		return "ERROR"
	case r.red:
		return "red"
	}
	return "SURVIVED"
}

// tail returns the end of what a command said.
func tail(out []byte) string {
	const most = 3000
	if len(out) > most {
		out = out[len(out)-most:]
	}
	return string(out)
}

// report prints the score.
func report(out io.Writer, table string, results []result) error {
	var b strings.Builder
	b.WriteString("| safeguard that is missing | file | noticed by | |\n|---|---|---|---|\n")
	red := 0
	var errs []error
	for i := range results {
		r := &results[i]
		if r.red {
			red++
		}
		errs = append(errs, r.err)
		by := "–"
		if r.by != "" {
			by = "`go test " + strings.ReplaceAll(r.by, "|", "\\|") + "`"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", r.name, r.file, by, verdict(r))
	}
	score := 100 * float64(red) / float64(len(results))
	fmt.Fprintf(&b, "\n%d of %d are noticed: %.1f %%.\n", red, len(results), score)
	fmt.Fprint(out, b.String())
	if table != "" {
		if err := os.WriteFile(table, []byte(b.String()), 0o600); err != nil {
			return err
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if score < goal {
		return fmt.Errorf("%.1f %% of the mutants are noticed, want %d %%", score, goal)
	}
	return nil
}

// copyModule copies the module, without what is hidden.
func copyModule(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		switch {
		case d.IsDir() && rel != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(dst, 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(dst, b, 0o600)
	})
}
