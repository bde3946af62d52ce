// Package floors holds the architecture of the module: which package may import
// which, and what some of them must do without. It reads the source and nothing
// else, every file for every platform, once for all tests: four seconds of a processor.
package floors

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/superstep-dev/superstep"

// floors is the building, from the cellar up. A package imports only from floors
// below its own. On its own floor it may import the packages it lies within, whose
// contract it fulfils (runlog/sqlite imports runlog), what is internal to its
// family, and its siblings as listed below; its tests may import the suites of its family (runlog/runlogtest).
//
// "." is the root of the module and "dir/..." is everything below dir.
var floors = []struct {
	name     string
	packages []string
}{
	{"-2", []string{"internal/clean", "internal/cover", "internal/detach", "internal/docs", "internal/effort", "internal/encodable", "internal/faults", "internal/floors", "internal/inside", "internal/inwords", "internal/localfs", "internal/manual", "internal/npm", "internal/owners", "internal/pgserver", "internal/procgroup", "internal/redisserver", "internal/schedule", "internal/signals", "internal/suggest", "internal/traceid", "internal/words", "internal/wordvec"}},
	{"-1", []string{"internal/docindex", "internal/elicit", "internal/frontmatter", "internal/gitwork", "internal/layers", "internal/plan", "internal/strict", "internal/toolnames"}},
	{"0", []string{
		"runlog", "runlog/stores", "runlog/file", "runlog/sqlite", "runlog/postgres", "runlog/redis", "runlog/seal", "runlog/redact", "runlog/storekit", "internal/archive", "runlog/runlogtest",
		"model", "internal/providers", "model/openai", "model/anthropic", "model/gemini", "internal/offline", "internal/prices", "model/scripted", "model/internal/wire",
		"tool", "tool/builtin", "tool/mcp", "tool/permit", "tool/sandbox", "internal/script",
		"hook", "internal/carry", "internal/cut", "internal/external", "internal/catalog/skill", "internal/catalog/trust", "internal/mail", "internal/promtext", "internal/summary", "internal/unlisted", "internal/waitlist",
	}},
	{"1", []string{"graph/reduce", "internal/attack", "internal/modeltest", "journal", "internal/pregel", "internal/pregel/pregeltest", "internal/transcript", "internal/transcript/recorded", "internal/events", "internal/events/eventstest", "internal/live", "internal/rundir", "memory", "vertex"}},
	{"2", []string{"graph", "graph/chain", "graph/draw", "graph/graphtest", "graph/node", "agent", "internal/definition", "agent/team", "agent/acp", "internal/acptest"}},
	{"3", []string{"workflow", "internal/question", "internal/recipe", "internal/compile"}},
	{"4", []string{"internal/catalog", "internal/builtin/agent", "internal/builtin/ralph", "internal/builtin/research"}},
	{"5", []string{".", "internal/distil", "telemetry"}}, // and other drivers
	{"6", []string{"host", "internal/evaluate", "internal/hosttest"}},
	{"7", []string{"cli", "console", "internal/acpserve", "internal/arguments", "internal/demo", "internal/tui"}}, // and other faces
	{"8", []string{"cmd/superstep", "internal/crash", "internal/crash/...", "internal/golden"}},
	{"examples", []string{"examples/..."}},
}

// siblings lists the packages that import others of their own floor.
var siblings = map[string][]string{
	"internal/plan":        {"internal/frontmatter"},
	"cli":                  {"console", "internal/acpserve", "internal/arguments", "internal/demo", "internal/tui"},
	"internal/acpserve":    {"internal/arguments", "internal/tui"},
	"internal/demo":        {"internal/tui"},
	"internal/tui":         {"internal/arguments"},
	"graph/node":           {"agent"},
	"internal/external":    {"model", "tool"},
	"hook":                 {"model", "tool"},
	"internal/providers":   {"model", "model/anthropic", "model/gemini", "internal/offline", "model/openai", "internal/prices"},
	"runlog/stores":        {"runlog/file", "runlog/postgres", "runlog/redis", "runlog/seal", "runlog/sqlite", "runlog/storekit"},
	"internal/carry":       {"runlog"},
	"internal/cut":         {"runlog"},
	"internal/mail":        {"runlog"},
	"internal/promtext":    {"internal/summary", "runlog"},
	"internal/summary":     {"runlog"},
	"internal/unlisted":    {"runlog"},
	"internal/waitlist":    {"runlog"},
	"internal/archive":     {"internal/unlisted", "runlog", "runlog/redact"},
	"runlog/redact":        {"internal/carry"},
	"runlog/storekit":      {"runlog/redact", "runlog/seal"},
	"runlog/file":          {"runlog/seal", "runlog/storekit"},
	"runlog/sqlite":        {"runlog/seal", "runlog/storekit"},
	"runlog/postgres":      {"runlog/seal", "runlog/storekit"},
	"runlog/redis":         {"runlog/seal", "runlog/storekit"},
	"tool/builtin":         {"tool/sandbox"},
	"tool/mcp":             {"tool/sandbox"},
	"tool/permit":          {"tool/sandbox"},
	"internal/compile":     {"workflow", "internal/recipe"},
	"internal/npm":         {"internal/faults"},
	"internal/offline":     {"model"},
	"internal/pgserver":    {"internal/faults"},
	"internal/redisserver": {"internal/faults"},
	"internal/prices":      {"model"},
	"internal/events":      {"internal/transcript"},
	"internal/rundir":      {"internal/transcript"},
	"internal/definition":  {"agent"},
	"internal/script":      {"tool", "tool/sandbox"},
	"runlog/runlogtest":    {"internal/unlisted", "runlog/seal", "runlog/storekit"},
	"vertex":               {"internal/pregel"},
}

// suites says of a suite that lies elsewhere whose family it is of.
var suites = map[string]string{"internal/modeltest": "model", "internal/hosttest": "host"}

// hosts says who may import a package that others shall not name. Whoever wants a
// store or a model takes it as an argument, and the command hands it over.
var hosts = map[string][]string{
	"runlog/stores":    {"cmd/superstep", "examples/..."},
	"runlog/sqlite":    {"runlog/stores", "cmd/superstep", "examples/...", "internal/crash"},
	"runlog/file":      {"runlog/stores", "cmd/superstep", "examples/...", "internal/crash"},
	"runlog/postgres":  {"runlog/stores", "cmd/superstep", "examples/...", "internal/crash"},
	"runlog/redis":     {"runlog/stores", "cmd/superstep", "examples/...", "internal/crash"},
	"model/openai":     {"cmd/superstep", "examples/...", "internal/providers"},
	"internal/offline": {"host", "cmd/superstep", "examples/...", "internal/providers"},
	"model/anthropic":  {"cmd/superstep", "examples/...", "internal/providers"},
	"model/gemini":     {"cmd/superstep", "examples/...", "internal/providers"},
}

// A ban names what packages, or single files, must do without: imports, by path, a
// tree of them as "net/...", and functions, as "time.Now".
type ban struct {
	in     []string
	what   []string
	except map[string]string // "file: what" to why
	why    string
}

var bans = []ban{
	{
		in: []string{"internal/pregel", "vertex", "graph", "graph/chain", "graph/draw", "graph/node", "internal/transcript", "internal/evaluate"},
		what: []string{
			"net/...", "os/exec",
			"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.Tick", "time.NewTimer", "time.NewTicker",
			"os.Getenv", "os.LookupEnv", "os.Environ", "os.Open", "os.OpenFile", "os.ReadFile", "os.WriteFile", "os.Create",
			"math/rand", "math/rand/v2", "crypto/rand",
		},
		except: map[string]string{
			"graph/run.go: math/rand/v2":       "the jitter of retries",
			"graph/run.go: time.NewTimer":      "the wait between two attempts",
			"vertex/attempt.go: time.NewTimer": "the wait between two attempts of a vertex",
		},
		why: "what decides takes the time, chance and input as arguments, so that a replay decides the same",
	},
	{
		in:   []string{"internal/pregel/machine.go", "internal/pregel/path.go", "internal/pregel/snapshot.go"},
		what: []string{"context", "time", "sync", "sync/...", "os", "io", "go statement", "channel"},
		why:  "the machine is pure; what waits, and what runs beside it, belongs into a driver",
	},
	{
		in:     []string{"agent", "agent/team", "graph", "graph/node", "workflow", "internal/builtin/agent", "internal/builtin/ralph", "internal/builtin/research", "internal/recipe", "internal/compile", "internal/distil", "internal/catalog", "."},
		what:   []string{module + "/model.Collect"},
		except: map[string]string{"agent/turn.go: " + module + "/model.Collect": "the one place"},
		why:    "every turn of a model is in the log and in the budget of its run; ask for it with agent.Ask",
	},
	{
		in: []string{"cli", "internal/tui"},
		what: []string{
			module + "/internal/catalog", module + "/internal/catalog/skill", module + "/internal/catalog/trust", module + "/internal/providers", module + "/internal/prices",
			module + "/model/openai", module + "/model/anthropic", module + "/model/gemini",
			module + "/runlog/stores", module + "/runlog/sqlite", module + "/runlog/file", module + "/runlog/postgres", module + "/runlog/redis",
		},
		why: "a face asks its host and draws; what another face would have to repeat belongs into the host",
	},
}

// state lists the package variables that the rule of TestNoPackageState would
// refuse and that are fine, with the reason: "dir.name" to why.
var state = map[string]string{
	"graph.ErrStopped": "the sentinel error of internal/pregel, under the name that programs use",
}

func TestFloors(t *testing.T) {
	t.Parallel()
	m := load(t)
	for _, problem := range m.imports() {
		t.Error(problem)
	}
}

func TestBans(t *testing.T) {
	t.Parallel()
	m := load(t)
	for _, problem := range m.banned(bans) {
		t.Error(problem)
	}
}

// Whether a run continues after an answer is decided in one place: faces answer by host.Answer. Those that execute the run themselves do not have to.
func TestAnswersGoThroughTheHost(t *testing.T) {
	t.Parallel()
	m := load(t)
	own := []string{"cli/driver.go", "cli/execute.go", "cli/eval.go"}
	faces, seen := []string{"cli", "console", "internal/tui", "internal/acpserve"}, 0
	for _, p := range m.sorted() {
		for _, f := range p.files {
			if !slices.Contains(faces, p.dir) || slices.Contains(own, f.name) {
				continue
			}
			ast.Inspect(f.File, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) < 4 {
					return true
				}
				if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Answer" {
					seen++
					if x, ok := s.X.(*ast.Ident); !ok || x.Name != "host" {
						t.Errorf("%s: use host.Answer, which decides whether the run continues", m.fset.Position(call.Pos()))
					}
				}
				return true
			})
		}
	}
	if seen < len(faces) {
		t.Errorf("%d answers are seen in the faces", seen)
	}
}

// Importing a package changes nothing, and no package remembers anything. There is
// no init function; a package variable is a sentinel error, a compiled regular
// expression, an embedded file or an unexported table, and nothing writes to it.
func TestNoPackageState(t *testing.T) {
	t.Parallel()
	m := load(t)
	for _, problem := range m.packageState() {
		t.Error(problem)
	}
}

// Every library that something of the module imports has a row in
// docs/dependencies.md that says why, with the version that go.mod asks for.
func TestDependenciesAreExplained(t *testing.T) {
	t.Parallel()
	m := load(t)
	doc, err := os.ReadFile(filepath.Join(m.root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	gomod, err := os.ReadFile(filepath.Join(m.root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range m.unexplained(string(doc), string(gomod)) {
		t.Error(problem)
	}
}

// TestRulesBite breaks each rule once, in a module of its own.
func TestRulesBite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		file string
		src  string
		want string // of the one problem there is
	}{
		{"upwards", "internal/pregel/a.go", `package pregel; import _ "` + module + `/graph"`, "internal/pregel (floor 1) imports graph (floor 2)"},
		{"sideways", "graph/a.go", `package graph; import _ "` + module + `/agent"`, "graph (floor 2) imports agent (floor 2)"},
		{"parent to child", "runlog/a.go", `package runlog; import _ "` + module + `/runlog/sqlite"`, "runlog (floor 0) imports runlog/sqlite (floor 0)"},
		{"sibling", "runlog/seal/a.go", `package seal; import _ "` + module + `/runlog/redact"`, "runlog/seal (floor 0) imports runlog/redact (floor 0)"},
		{"unlisted", "pool/a.go", `package pool`, "pool has no floor"},
		{"concrete store", "workflow/a.go", `package workflow; import _ "` + module + `/runlog/sqlite"`, "workflow names runlog/sqlite"},
		{"suite in production", "agent/a.go", `package agent; import _ "` + module + `/internal/modeltest"`, "agent imports the test suite internal/modeltest"},
		{"suite of another family", "tool/a_test.go", `package tool; import _ "` + module + `/internal/modeltest"`, "tool (floor 0) imports internal/modeltest (floor 1)"},
		{"clock", "internal/transcript/a.go", `package transcript; import clock "time"; var _ = clock.Now()`, "uses time.Now"},
		{"network", "graph/a.go", `package graph; import _ "net/http"`, "uses net/http"},
		{"goroutine", "internal/pregel/machine.go", `package pregel; func f() { go f() }`, "uses go statement"},
		{"turn beside the budget", "graph/node/a.go", `package node; import "` + module + `/model"; var _, _ = model.Collect(nil, nil)`, "uses " + module + "/model.Collect"},
		{"catalog in a face", "cli/a.go", `package cli; import _ "` + module + `/internal/catalog"`, "uses " + module + "/internal/catalog"},
		{"init", "tool/a.go", `package tool; func init() {}`, "func init"},
		{"exported table", "tool/a.go", `package tool; var Names = []string{"a"}`, "tool.Names"},
		{"written table", "tool/a.go", `package tool; var seen = map[string]bool{}; func f(s string) { seen[s] = true }`, "tool.seen"},
		{"unset variable", "tool/a.go", `package tool; var debug bool; func f() *bool { return &debug }`, "tool.debug"},
		{"lock", "tool/a.go", `package tool; import "sync"; var mu sync.Mutex`, "tool.mu"},
		{"library", "tool/a.go", `package tool; import _ "example.org/lib/sub"`, "example.org/lib/sub has no row"},
		{"shadow", "tool/a.go", `package tool; var words = []string{"a"}; func f() { words := words; words[0] = "b" }`, ""},
		{"listed sibling", "runlog/sqlite/a.go", `package sqlite; import _ "` + module + `/runlog/storekit"`, ""},
		{"child to parent", "tool/builtin/a.go", `package builtin; import _ "` + module + `/tool"`, ""},
		{"suite in tests", "runlog/sqlite/a_test.go", `package sqlite; import _ "` + module + `/runlog/runlogtest"`, ""},
		{"outside tests", "internal/pregel/a_test.go", `package pregel_test; import _ "` + module + `/graph"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := &tree{packages: map[string]*pkg{}, fset: token.NewFileSet()}
			if err := m.add(c.file, []byte(c.src)); err != nil {
				t.Fatal(err)
			}
			got := slices.Concat(m.imports(), m.banned(bans), m.packageState(), m.unexplained("", ""))
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("refused: %s", strings.Join(got, "\n"))
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
				t.Errorf("problems %q, want one with %q", got, c.want)
			}
		})
	}
}
