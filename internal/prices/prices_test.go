package prices_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/prices"
	"github.com/superstep-dev/superstep/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	m, _ := prices.Embedded().Find("openai/gpt-5-mini-2025-08-07")
	cost := m.Price.Of(model.Usage{In: 10_000, Out: 1_000})
	fmt.Printf("%s holds %d tokens; this turn costs $%.4f\n", m.Name, m.Window, float64(cost)/1e6)
	// Output: openai/gpt-5-mini holds 400000 tokens; this turn costs $0.0045
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	table := prices.Embedded()
	models := table.Models()
	if len(models) < 140 || table.Date() < "2025-12-01" || len(table.Sources()) == 0 {
		t.Fatalf("%s, from %q", table, table.Sources())
	}
	for _, m := range models {
		found, ok := table.Find(m.Name)
		switch {
		case !ok || found.Name != m.Name:
			t.Errorf("%s is found as %q", m.Name, found.Name)
		case !m.Priced || m.Price.In <= 0 || m.Price.Out <= 0:
			t.Errorf("%s has the price %+v", m.Name, m.Price)
		case m.Price.Cached > m.Price.In:
			t.Errorf("%s: what is cached costs more than what is not", m.Name)
		case m.Window < 1000 && m.Window+m.Output > 0 || m.Output > m.Window:
			t.Errorf("%s holds %d tokens and answers with %d", m.Name, m.Window, m.Output)
		}
	}
	for provider, word := range map[string]string{"openai": "mini", "anthropic": "sonnet", "gemini": "flash", "openrouter": "", "deepseek": "chat", "mistral": "medium", "xai": "4", "groq": "versatile"} {
		if len(table.Names(provider)) == 0 {
			t.Errorf("nothing of %s", provider)
		}
		if _, ok := table.Newest(provider, word); !ok && word != "" {
			t.Errorf("no %s of %s", word, provider)
		}
	}
}

const small = `date: 2026-02-01
models:
  a/gpt-5: {in: 1, out: 2, aliases: [five]}
  a/gpt-5-mini: {in: 0.5, out: 1, cached: 0.05, written: 0.6, window: 1000, output: 100, released: 2025-08-07}
  a/x-sonnet-4: {in: 3, out: 15, released: 2025-05-14}
  a/x-sonnet-4-5: {in: 3, out: 15, released: 2025-09-29}
  a/3-7-x-sonnet: {in: 3, out: 15, released: 2026-01-01}
  a/x-sonnet-4-5-fast: {in: 3, out: 15}
  google/gem: {window: 10}
`

func TestFind(t *testing.T) {
	t.Parallel()
	table, err := prices.Parse("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"a/gpt-5":                             "a/gpt-5",
		"A/GPT-5":                             "a/gpt-5",
		"a/five":                              "a/gpt-5",
		"a/five-2025-08-07":                   "a/gpt-5",
		"a/gpt-5-mini-2025-08-07":             "a/gpt-5-mini",
		"a/gpt-5-mini-20250807":               "a/gpt-5-mini",
		"a/gpt-5-mini-2508":                   "a/gpt-5-mini",
		"a/gpt-5-mini-0807":                   "a/gpt-5-mini",
		"a/gpt-5-mini-08-2025":                "a/gpt-5-mini",
		"a/gpt-5-latest":                      "a/gpt-5",
		"a/x-sonnet-4-20250514":               "a/x-sonnet-4",
		"a/x-sonnet-4-5-20250929":             "a/x-sonnet-4-5",
		"gemini/gem":                          "gemini/gem",
		"google/gem":                          "gemini/gem",
		"a/gpt-5-pro":                         "", // another model
		"a/gpt-5-mini-high":                   "",
		"a/gpt-5-nano-2025-08-07":             "",
		"a/gpt-5-2025-13-07":                  "", // no date
		"a/gpt-5-8192":                        "",
		"a/gpt":                               "",
		"a/x-sonnet-4-6":                      "",
		"a/x-sonnet-4-6-20260101":             "",
		"b/gpt-5":                             "",
		"gpt-5":                               "",
		"":                                    "",
		"/":                                   "",
		"a/-2025-08-07":                       "",
		"a/" + strings.Repeat("-2508", 1<<18): "",
	} {
		got, ok := table.Find(name)
		if got.Name != want || ok != (want != "") {
			t.Errorf("%.40q is %q, want %q", name, got.Name, want)
		}
	}
	if m, _ := table.Newest("a", "sonnet"); m.Name != "a/x-sonnet-4-5" {
		t.Errorf("the newest is %q", m.Name)
	}
	for _, name := range []string{"a/x-sonnet-5", "a/x-sonnet-4-10"} { // not released as far as is known, but newer
		upper, err := prices.Parse("u", []byte("date: 2026-03-01\nmodels:\n  "+name+": {}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if m, _ := upper.Over(table).Newest("a", "sonnet"); m.Name != name {
			t.Errorf("the newest is %q, want %s", m.Name, name)
		}
	}
	m, _ := table.Find("a/gpt-5-mini")
	if m.Price != (model.Price{In: 0.5, Out: 1, Cached: 0.05, Written: 0.6}) || m.Window != 1000 || m.Output != 100 {
		t.Errorf("%+v", m)
	}
	if m, _ := table.Find("gemini/gem"); m.Priced {
		t.Error("a price from nothing")
	}
	var none *prices.Table
	if _, ok := none.Find("a/b"); ok || none.Models() != nil || none.Date() != "" || none.Names("") != nil {
		t.Error("no table knows something")
	}
}

func TestOver(t *testing.T) {
	t.Parallel()
	lower, err := prices.Parse("lower.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	upper, err := prices.Parse("upper.json", []byte(`{"date": "2026-03-01", "models": {"a/gpt-5": {"in": 9, "out": 9}, "a/gpt-6": {"in": 7, "out": 7}}}`))
	if err != nil {
		t.Fatal(err)
	}
	table := upper.Over(lower)
	for name, in := range map[string]float64{"a/gpt-5": 9, "a/gpt-6": 7, "a/gpt-5-mini": 0.5} {
		if m, _ := table.Find(name); m.Price.In != in || m.Own != (in > 1) {
			t.Errorf("%+v", m)
		}
	}
	if _, ok := table.Find("a/five"); ok {
		t.Error("an alias of a model that was replaced is left")
	}
	if table.Date() != "2026-03-01" || lower.Date() != "2026-02-01" {
		t.Error(table.Date(), lower.Date())
	}
	var none *prices.Table
	if none.Over(lower) != lower || len(upper.Over(nil).Models()) != 2 {
		t.Error("a table over none")
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	head := "date: 2026-01-31\nmodels:\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "t:1:1: the table is empty"},
		{"comment", "# nothing\n", "t:1:1: the table is empty"},
		{"no date", "models:\n  a/b: {in: 1, out: 1}\n", "date is missing"},
		{"no models", "date: 2026-01-31\n", "models is missing"},
		{"no day", "date: tomorrow\nmodels:\n  a/b: {in: 1, out: 1}\n", "t:1:7: want a day such as 2026-01-31"},
		{"no such day", "date: 2026-02-31\nmodels:\n  a/b: {in: 1, out: 1}\n", "t:1:7: want a day"},
		{"field", head + "  a/b: {inn: 1, out: 1}\n", `t:3:9: a model has no "inn"; did you mean "in"?`},
		{"top", "dates: 1\n" + head + "  a/b: {}\n", `t:1:1: a table has no "dates"; did you mean "date"?`},
		{"text", head + "  a/b: {in: one, out: 1}\n", "t:3:13: in: want a number of US dollars from 0 to 1000000"},
		{"quoted", head + "  a/b: {in: \"1\", out: 1}\n", "t:3:13: in: want a number"},
		{"negative", head + "  a/b: {in: -1, out: 1}\n", "t:3:13: in: want"},
		{"nan", head + "  a/b: {in: .nan, out: 1}\n", "t:3:13: in: want"},
		{"huge", head + "  a/b: {in: 1, out: 2000000}\n", "t:3:21: out: want"},
		{"half", head + "  a/b: {in: 1}\n", "t:3:3: a/b: in and out belong together"},
		{"window", head + "  a/b: {window: 1.5}\n", "t:3:17: window: want a number of tokens"},
		{"name", head + "  gpt-5: {in: 1, out: 1}\n", `t:3:3: "gpt-5" is no name of a model; want provider/model`},
		{"twice", head + "  a/b: {in: 1, out: 1}\n  a/b: {in: 1, out: 1}\n", `t:4:3: "a/b" is there twice, first at 3:3`},
		{"other case", head + "  a/b: {in: 1, out: 1}\n  A/B: {in: 1, out: 1}\n", "t:4:3: A/B is also the name of the model in line 3"},
		{"alias", head + "  a/b: {in: 1, out: 1}\n  a/c: {in: 1, out: 1, aliases: [b]}\n", "is also the name of the model in line 3"},
		{"reference", head + "  a/b: &x {in: 1, out: 1}\n  a/c: *x\n", "t:3:8: YAML aliases are not allowed"},
		{"list", "- a\n", "t:1:1: want the lines date and models"},
		{"two", head + "  a/b: {in: 1, out: 1}\n---\na: 1\n", "t:4:1: a second YAML document starts here"},
		{"broken", "date: [\n", "t:1:"},
		{"tab", "models:\n\ta/b: {}\n", "t:2:"},
		{"binary", "date: \xff\n", "t:1:1: the file must be UTF-8; there is a bad byte at offset 6"},
		{"nested", strings.Repeat("[", 1<<19), "over 64 deep"},
		{"dashes", strings.Repeat("- ", 1<<19), "over 64 deep"},
		{"size", strings.Repeat("# x\n", 1<<18+1), "a table is at most 1 MiB"},
		{"escape", head + "  \"a/\\eb\": {}\n", "is no name of a model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			table, err := prices.Parse("t", []byte(c.text))
			var problems *prices.Error
			if table != nil || !errors.As(err, &problems) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	_, err := prices.Parse("t", []byte(head+strings.Repeat("  x: {}\n", 50)))
	if n := strings.Count(err.Error(), "\n"); n != 20 || !strings.HasSuffix(err.Error(), "and 30 more") {
		t.Errorf("%d lines: %v", n, err)
	}
}

func TestInstall(t *testing.T) {
	t.Parallel()
	dir, from := filepath.Join(t.TempDir(), "conf"), t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(from, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	table := func(date string, in int) string {
		return fmt.Sprintf("{\"date\": %q, \"models\": {\"openai/gpt-5\": {\"in\": %d, \"out\": 1}}}", date, in)
	}
	if _, path, err := prices.Load(dir); path != "" || err != nil {
		t.Fatal(path, err)
	}
	var older *prices.OlderError
	if _, _, err := prices.Install(dir, file("old.yaml", table("2001-01-01", 1)), false); !errors.As(err, &older) || older.Path != "" {
		t.Errorf("older than what is built in: %v", err)
	}
	_, path, err := prices.Install(dir, file("new.yaml", table("2190-01-02", 2)), false)
	if err != nil || filepath.Base(path) != "prices.yaml" {
		t.Fatal(path, err)
	}
	if _, _, err := prices.Install(dir, file("less.json", table("2190-01-01", 3)), false); !errors.As(err, &older) || older.Path != path {
		t.Errorf("older than the installed one: %v", err)
	}
	if _, path, err = prices.Install(dir, file("less.json", table("2190-01-01", 3)), true); err != nil || filepath.Base(path) != "prices.json" {
		t.Fatal(path, err)
	}
	got, at, err := prices.Load(dir)
	if m, _ := got.Find("openai/gpt-5"); err != nil || at != path || m.Price.In != 3 || !m.Own {
		t.Errorf("%+v in %s: %v", m, at, err)
	}
	if _, ok := got.Find("openai/gpt-5-mini"); !ok {
		t.Error("what is built in is gone")
	}
	var wrong *prices.Error
	if _, _, err := prices.Install(dir, file("bad.yaml", "date: 2199-01-01\nmodels: 7\n"), true); !errors.As(err, &wrong) {
		t.Errorf("a bad table: %v", err)
	}
	if err := os.WriteFile(path, []byte("broken: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _, err := prices.Load(dir); !errors.As(err, &wrong) || len(got.Models()) < 100 {
		t.Errorf("a broken table of the user: %v", err)
	}
	if _, _, err := prices.Install(dir, file("new.json", table("2190-01-02", 2)), false); err != nil {
		t.Errorf("mending a broken table: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "prices.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := prices.Load(dir); err == nil || !strings.Contains(err.Error(), "remove one") {
		t.Errorf("two tables: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	for _, s := range []string{"", "date: 2026-01-31\nmodels: {a/b: {in: 1, out: 2, aliases: [c]}}\n", `{"date":"2026-01-31","models":{"a/b":{}}}`, "a: &x\n<<: *x", "? a\n: b", "date: !!str x", "models:\n  a/b:\n    in: 1", "- - -", "{[", "a: |\n x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := prices.Parse("f", b)
		if (table == nil) == (err == nil) {
			t.Fatal(table, err)
		}
		for _, m := range table.Models() {
			if found, ok := table.Find(m.Name); !ok || found.Name != m.Name {
				t.Errorf("%q is found as %q", m.Name, found.Name)
			}
		}
	})
}

func FuzzFind(f *testing.F) {
	table := prices.Embedded()
	f.Add("openai/gpt-5-mini-2025-08-07")
	f.Add("google/gemini-2.5-pro-latest")
	f.Fuzz(func(t *testing.T, name string) {
		m, ok := table.Find(name)
		low := strings.ToLower(name)
		if rest, is := strings.CutPrefix(low, "google/"); is {
			low = "gemini/" + rest
		}
		if !ok {
			return
		}
		provider, _, _ := strings.Cut(m.Name, "/")
		for _, n := range append([]string{strings.TrimPrefix(m.Name, provider+"/")}, m.Aliases...) {
			if strings.HasPrefix(low, strings.ToLower(provider+"/"+n)) {
				return
			}
		}
		t.Errorf("%q is found as %q", name, m.Name)
	})
}

func BenchmarkEmbedded(b *testing.B) {
	for b.Loop() {
		prices.Embedded()
	}
}
