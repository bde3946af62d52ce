package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	golangci    = "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0"
	govulncheck = "golang.org/x/vuln/cmd/govulncheck@v1.3.0"
)

// sets returns the sets of lanes. What runs beside each other stands together; a lane that watches a clock runs alone.
func sets() []set {
	return []set{
		{"all", "what every change has to pass", [][]string{{"format", "modules", "build"}, {"vet", "test"}}},
		{"deep", "what takes longer and finds other faults, at most 20 minutes more", [][]string{
			{"lint"}, {"race"}, {"shuffle"}, {"apart"}, {"whole"}, {"corpora", "processes", "systems", "vuln"}, {"timed"},
		}},
		{"quick", "what is worth running after every edit", [][]string{{"format", "vet"}, {"most"}}},
		{"longer", "all tests, what they repeat ten times as often; then with the race detector: hours", [][]string{{"longtest"}, {"longrace"}}},
	}
}

// lanes returns all lanes, with how long each may take on two cores.
func lanes() []lane {
	return []lane{
		{"format", "gofmt has nothing to change", time.Minute, format},
		{"modules", "go.mod and go.sum say what the code imports", 2 * time.Minute, modules},
		{"build", "everything compiles", 10 * time.Minute, build},
		{"vet", "go vet, in all modules", 10 * time.Minute, vet},
		{"test", "the tests of all packages, a hundredth of what they repeat", 20 * time.Minute, test},
		{"most", "the tests of the packages that take less than 10 s", 10 * time.Minute, most},
		{"lint", "golangci-lint, in all modules", 15 * time.Minute, lint},
		{"race", "the tests of packages with goroutines, with the race detector", 20 * time.Minute, race},
		{"shuffle", "the tests of the others, in an order by the day", 10 * time.Minute, shuffle},
		{"apart", "the tests of the modules of their own", 10 * time.Minute, modulesApart},
		{"whole", "the tests that -short leaves out", 10 * time.Minute, whole},
		{"corpora", "the fuzz targets with all inputs that were ever found", 5 * time.Minute, corpora},
		{"processes", "a tenth of the scripts of the command, chosen by the day, with processes of their own", 5 * time.Minute, processes},
		{"systems", "everything compiles for the other systems and for 32 bits", 5 * time.Minute, systems},
		{"vuln", "known vulnerabilities in what the code calls; VULNDB names a copy of the database", 3 * time.Minute, vuln},
		{"timed", "the tests that watch a clock, one package after the other", 10 * time.Minute, timedTests},
		{"longtest", "all tests, a tenth of what they repeat", 0, longtest},
		{"longrace", "the same with the race detector", 0, longrace},
		{"fuzz", "each fuzz target for a few seconds, or for FUZZTIME; chance decides what that finds", 0, fuzz},
		{"crash", "everything that breaks things, with its full numbers: hours. REPORT names a file for the table", 0, crash},
		{"attack", "the whole corpus that attacks the sandbox, as an ordinary user: more than 3,000 combinations", 0, attack},
		{"sabotage", "take the safeguards out, one by one, and see the tests fail: hours. REPORT names a file for the table", 0, sabotage},
	}
}

func attack(ctx context.Context, c *check, p *progress) error {
	return c.test(ctx, p, suite{dir: ".", packages: []string{"./internal/attack"}, env: []string{"SUPERSTEP_ATTACK=all"}, flags: []string{"-run=^TestCorpus$", "-timeout=3h"}})
}

func format(ctx context.Context, c *check, _ *progress) error {
	out, err := c.run(ctx, ".", nil, "gofmt", "-l", ".")
	if err == nil && out != "" {
		c.out.printf("not formatted, run gofmt -w on:\n%s", out)
		err = errors.New("not formatted")
	}
	return err
}

func modules(ctx context.Context, c *check, p *progress) error {
	return c.everywhere(ctx, p, "go", "mod", "tidy", "-diff")
}

// build compiles all packages, and links the command for the tests. Unlike go build, which would link each program anew, go list keeps all that it makes.
func build(ctx context.Context, c *check, p *progress) error {
	err := c.everywhere(ctx, p, "go", "list", "-export", `-f={{""}}`, "./...")
	_, err2 := c.built()
	return errors.Join(err, err2)
}

func vet(ctx context.Context, c *check, p *progress) error {
	return c.everywhere(ctx, p, "go", "vet", "./...")
}

func lint(ctx context.Context, c *check, p *progress) error {
	program, err := c.tool(ctx, golangci)
	if err != nil {
		p.note = "SKIPPED: golangci-lint could not be built"
		return ctx.Err()
	}
	return c.everywhere(ctx, p, program, "run", "--allow-parallel-runners", "./...")
}

// chosen returns the packages that the command line names, all if it names none.
func (c *check) chosen(ctx context.Context) ([]string, error) {
	if c.packages != nil {
		return c.list(ctx, ".", c.packages...)
	}
	return c.list(ctx, ".", "./...")
}

func test(ctx context.Context, c *check, p *progress) error {
	packages, err := c.chosen(ctx)
	if err != nil {
		return err
	}
	return c.test(ctx, p, suite{dir: ".", packages: packages, flags: []string{"-short"}})
}

func most(ctx context.Context, c *check, p *progress) error {
	packages, err := c.chosen(ctx)
	if err != nil {
		return err
	}
	packages = slices.DeleteFunc(packages, func(pkg string) bool { return c.times.of("test", pkg) > 10 })
	return c.test(ctx, p, suite{dir: ".", packages: packages, flags: []string{"-short"}})
}

// folder returns the folder of a package, as concurrent and reaching name it.
func folder(pkg string) string { return "./" + own(pkg) }

// raced returns the packages that the race detector looks at. The command is a few lines over packages that are looked at themselves, and floors only has such words in texts.
func (c *check) raced(ctx context.Context) (raced, others []string, err error) {
	packages, err := c.chosen(ctx)
	if err != nil {
		return nil, nil, err
	}
	dirs, err := concurrent(".")
	for _, pkg := range packages {
		if dir := folder(pkg); slices.Contains(dirs, dir) && !strings.HasPrefix(dir, "./cmd/") && dir != "./internal/floors" {
			raced = append(raced, pkg)
		} else {
			others = append(others, pkg)
		}
	}
	return raced, others, err
}

// racing returns a suite with the race detector. SQLite and its libc are built without: C translated to Go, which starts no goroutine here and which it
// would slow down most. A program with the detector ends a second late unless told otherwise, and tests start hundreds.
func racing(s suite) suite {
	s.flags = slices.Concat([]string{"-race"}, s.flags)
	for _, translated := range []string{"libc", "sqlite"} {
		s.flags = append(s.flags, "-gcflags=modernc.org/"+translated+"/...=-race=false")
	}
	s.env = append(s.env, "CGO_ENABLED=1", "GORACE=atexit_sleep_ms=0")
	return s
}

// seed returns the seed of the day.
func (c *check) seed() string { return c.begun.UTC().Format("20060102") }

func (c *check) shuffled() string { return "-shuffle=" + c.seed() }

func race(ctx context.Context, c *check, p *progress) error {
	raced, _, err := c.raced(ctx)
	if err != nil {
		return err
	}
	if !c.compiler(ctx) {
		p.note = "SKIPPED: the race detector needs a C compiler (Debian: apt-get install gcc libc6-dev)"
		return nil
	}
	p.note = c.shuffled()
	return c.test(ctx, p, racing(suite{dir: ".", packages: raced, flags: []string{"-short", c.shuffled()}}))
}

func shuffle(ctx context.Context, c *check, p *progress) error {
	_, others, err := c.raced(ctx)
	if err != nil {
		return err
	}
	p.note = c.shuffled()
	return c.test(ctx, p, suite{dir: ".", packages: others, flags: []string{"-short", c.shuffled()}})
}

func modulesApart(ctx context.Context, c *check, p *progress) error {
	var errs []error
	for _, dir := range apart() {
		packages, err := c.list(ctx, dir, "./...")
		if err != nil {
			return err
		}
		errs = append(errs, c.test(ctx, p, suite{dir: dir, packages: packages, flags: []string{"-short", "-count=1"}})) // they reach what go test knows nothing of
	}
	return errors.Join(errs...)
}

// some runs those tests that reach something that hit knows, in all packages, with flags for each.
func (c *check) some(ctx context.Context, p *progress, hit func(ast.Node) bool, env []string, flags ...string) error {
	packages, err := c.chosen(ctx)
	if err != nil {
		return err
	}
	tests, err := reaching(".", hit)
	if err != nil {
		return err
	}
	var names []string
	packages = slices.DeleteFunc(packages, func(pkg string) bool {
		names = append(names, tests[folder(pkg)]...)
		return tests[folder(pkg)] == nil
	})
	if len(packages) == 0 {
		p.note = "there is none"
		return nil
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return c.test(ctx, p, suite{dir: ".", packages: packages, env: env, flags: append(flags, "-run=^("+strings.Join(names, "|")+")$")})
}

func whole(ctx context.Context, c *check, p *progress) error {
	return c.some(ctx, p, skipsShort, nil)
}

func timedTests(ctx context.Context, c *check, p *progress) error {
	return c.some(ctx, p, func(n ast.Node) bool { return calls(n, "faults", "Timed") || calls(n, "faults", "Bound") }, []string{"SUPERSTEP_TEST_TIMED=1"}, "-short", "-p=1")
}

func corpora(ctx context.Context, c *check, p *progress) error {
	return c.some(ctx, p, func(n ast.Node) bool {
		f, ok := n.(*ast.FuncDecl)
		return ok && strings.HasPrefix(f.Name.Name, "Fuzz")
	}, nil)
}

func processes(ctx context.Context, c *check, p *progress) error {
	p.note = c.seed()
	return c.test(ctx, p, suite{dir: ".", packages: []string{module + "/cli"}, env: []string{"SUPERSTEP_TEST_PROCESSES=" + c.seed()}, flags: []string{"-short", "-run=^TestScripts$"}})
}

func systems(ctx context.Context, c *check, _ *progress) error {
	args := []string{"-C", "internal/harness", "run", "./systems"}
	for _, dir := range append([]string{"."}, apart()...) {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		args = append(args, abs)
	}
	_, err := c.run(ctx, ".", nil, "go", args...)
	return err
}

func vuln(ctx context.Context, c *check, p *progress) error {
	program, err := c.tool(ctx, govulncheck)
	if err != nil {
		p.note = "SKIPPED: govulncheck could not be built"
		return nil
	}
	var args []string
	if db := os.Getenv("VULNDB"); db != "" {
		args = []string{"-db", db}
	}
	var said strings.Builder
	err = c.stream(ctx, ".", nil, &said, &said, program, append(args, "./...")...)
	if err != nil && strings.Contains(said.String(), "fetching vulnerabilities") {
		p.note = "SKIPPED: the vulnerability database does not answer (VULNDB names a copy)"
		return nil
	}
	c.out.printf("%s", said.String())
	return err
}

// all runs the tests of all modules.
func (c *check) all(ctx context.Context, p *progress, wrap func(suite) suite) error {
	var errs []error
	for _, dir := range append([]string{"."}, apart()...) {
		packages, err := c.list(ctx, dir, "./...")
		if err != nil {
			return err
		}
		errs = append(errs, c.test(ctx, p, wrap(suite{dir: dir, packages: packages, env: []string{"SUPERSTEP_TEST_TIMED=1"}, flags: []string{c.shuffled(), "-timeout=1h"}})))
	}
	return errors.Join(errs...)
}

func longtest(ctx context.Context, c *check, p *progress) error {
	return c.all(ctx, p, func(s suite) suite { return s })
}

func longrace(ctx context.Context, c *check, p *progress) error {
	if !c.compiler(ctx) {
		return errors.New("the race detector needs a C compiler (Debian: apt-get install gcc libc6-dev)")
	}
	return c.all(ctx, p, racing)
}

func sabotage(ctx context.Context, c *check, _ *progress) error {
	args := []string{"run", "./sabotage"}
	if report := os.Getenv("REPORT"); report != "" {
		abs, err := filepath.Abs(report)
		if err != nil {
			return err
		}
		args = append(args, "-table", abs)
	}
	print := &lines{each: func(line string) { c.out.printf("%s\n", line) }}
	return c.stream(ctx, "internal/harness", nil, print, print, "go", args...)
}

// crash runs the tests that break things with their full numbers, and makes a table of what they found.
func crash(ctx context.Context, c *check, p *progress) error {
	tests, err := reaching(".", func(n ast.Node) bool {
		return calls(n, "faults", "N") || calls(n, "faults", "Full") || calls(n, "faults", "Report")
	})
	if err != nil {
		return err
	}
	packages, err := c.chosen(ctx)
	if err != nil {
		return err
	}
	packages = slices.DeleteFunc(packages, func(pkg string) bool { return tests[folder(pkg)] == nil })
	temporal, err := c.list(ctx, "temporal", "./...")
	if err != nil {
		return err
	}
	full := []string{"SUPERSTEP_FAULTS=full", "SUPERSTEP_TEST_TIMED=1"}
	err = errors.Join(
		c.test(ctx, p, suite{dir: ".", packages: packages, env: full, flags: []string{"-count=1", "-p=1", "-timeout=0"}}),
		c.test(ctx, p, suite{dir: "temporal", packages: temporal, env: full, flags: []string{"-count=1", "-timeout=0"}}), // with its server, see docs/temporal.md
	)
	table, err2 := c.faults(ctx, p)
	c.out.printf("%s", table)
	if report := os.Getenv("REPORT"); report != "" {
		err2 = errors.Join(err2, os.WriteFile(report, []byte(table), 0o600))
	}
	return errors.Join(err, err2)
}

// faults makes a table of the reports that the lane has heard.
func (c *check) faults(ctx context.Context, p *progress) (string, error) {
	var b strings.Builder
	b.WriteString("| fault | store | times | took | found |\n|---|---|--:|--:|---|\n")
	for _, line := range slices.Sorted(slices.Values(p.faults)) {
		fmt.Fprintf(&b, "| %s |\n", strings.ReplaceAll(line, "\t", " | "))
	}
	commit, err := c.command(ctx, ".", nil, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		commit = []byte("unknown")
	}
	version, err := c.command(ctx, ".", nil, "go", "env", "GOVERSION").Output()
	fmt.Fprintf(&b, "\n%s, %d cores, commit %s, %d failures\n", strings.TrimSpace(string(version)), cores(), strings.TrimSpace(string(commit)), len(p.failed))
	return b.String(), err
}

// fuzz fuzzes each target, for a few seconds unless FUZZTIME says otherwise.
func fuzz(ctx context.Context, c *check, p *progress) error {
	targets, err := reaching(".", func(n ast.Node) bool {
		f, ok := n.(*ast.FuncDecl)
		return ok && strings.HasPrefix(f.Name.Name, "Fuzz")
	})
	if err != nil {
		return err
	}
	var todo [][2]string
	for dir, names := range targets {
		for _, name := range names {
			todo = append(todo, [2]string{dir, name})
		}
	}
	slices.SortFunc(todo, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	took := os.Getenv("FUZZTIME")
	if took == "" {
		took = fmt.Sprintf("%ds", min(max(60/max(len(todo), 1), 2), 5))
	}
	var errs []error
	for i, t := range todo {
		p.at(i, len(todo), "targets", t[1])
		var said strings.Builder
		err := c.stream(ctx, ".", nil, &said, &said, "go", "test", "-run=^$", "-fuzz=^"+t[1]+"$", "-fuzztime="+took, t[0])
		// The go command now and then takes the end of the time for a failure; one with a finding always says where it has put the input.
		if err != nil && (!strings.Contains(said.String(), "context deadline exceeded") || strings.Contains(said.String(), "Failing input")) {
			errs = append(errs, fmt.Errorf("%s: %w", t[1], err))
		}
		c.out.printf("%s\n%s", t[1], said.String())
	}
	return errors.Join(errs...)
}
