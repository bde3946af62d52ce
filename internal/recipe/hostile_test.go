package recipe_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/recipe"
)

func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func hostile() map[string]string {
	const mib = 1 << 20
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 20; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	keys := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < mib-100; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	head := "name: t\nsteps:\n"
	step := "  - {id: a, subagent: r, prompt: p}\n"
	fill := func(s string) string { return strings.Repeat(s, (mib-300)/len(s)) }
	steps := func(n int, format string) string {
		b := strings.Builder{}
		b.WriteString(head)
		for i := range n {
			fmt.Fprintf(&b, format, i, (i+1)%n)
		}
		return b.String()
	}
	var ids []string
	for i := range 999 {
		ids = append(ids, fmt.Sprintf("s%d", i))
	}
	dense := head
	for i := range 600 {
		dense += fmt.Sprintf("  - {id: s%d, tool: t, depends_on: [%s]}\n", i, strings.Join(ids[:min(i, 300)], ","))
	}
	return map[string]string{
		"empty": "", "zeros": strings.Repeat("\x00", 1000), "2 MiB": strings.Repeat("x", 2*mib), "utf-16": "\xff\xfen\x00a\x00", "utf-16be": "\xfe\xff\x00n", "latin-1": "name: caf\xe9\n",
		"utf-32": "\xff\xfe\x00\x00n\x00\x00\x00", "late bad byte": head + step + "# \xff\n", "surrogate": "name: \xed\xa0\x80\n",
		"alias bomb": bomb, "aliases": "a: &a [" + fill("*a,") + "]", "anchors": keys("- &a%d x\n"), "tags": keys("- !x%d y\n"),
		"deep list": fill("["), "deep flow": strings.Repeat("[", 10_000), "deep map": fill("{a: "), "deep block": fill("- "), "deep complex": fill("? "), "deep indent": func() string {
			b := ""
			for i := range 1000 {
				b += strings.Repeat(" ", i) + "a:\n"
			}
			return b
		}(),
		"list": "[" + fill("a,") + "]", "map": "{" + fill("a: 1,") + "}", "keys": keys("k%d: 1\n"), "same keys": fill("k: 1\n"), "inputs": "name: t\ninputs:\n" + keys("  - i%d\n"),
		"quotes": fill("'"), "double quotes": fill(`"`), "escapes": head + `  - {id: a, subagent: r, prompt: "` + fill(`\u0061`) + `"}`, "colons": fill(": "), "dashes": fill("-"), "commas": fill(","),
		"scalar": head + "  - id: a\n    subagent: r\n    prompt: " + fill("x"), "name": "name: " + fill("x") + "\n" + step, "key": fill("x") + ": 1\n", "id": head + "  - {id: " + fill("x") + "}",
		"block": head + "  - id: a\n    subagent: r\n    prompt: |\n" + fill("      x\n"), "blank block": head + "  - id: a\n    subagent: r\n    prompt: |\n" + fill("\n"),
		"templates": head + "  - id: a\n    subagent: r\n    prompt: \"" + fill("{{inputs.x}}") + "\"", "open braces": head + "  - id: a\n    subagent: r\n    prompt: \"" + fill("{{") + "\"",
		"open and close": head + "  - id: a\n    subagent: r\n    prompt: \"" + fill("{{") + "}}\"", "bad templates": head + "  - id: a\n    subagent: r\n    prompt: |\n" + fill("      {{x y}}\n"),
		"long reference": head + "  - id: a\n    subagent: r\n    prompt: \"{{" + fill("a.") + "}}\"", "braces in lines": head + "  - id: a\n    subagent: r\n    prompt: |\n" + fill("      {{\n"),
		"condition": head + "  - {id: a, tool: t, when: \"" + fill("(") + "\"}", "conditions": steps(1000, "  - {id: s%d, tool: t, when: '"+strings.Repeat("(", 400)+"true"+strings.Repeat(")", 400)+"'}\n#%d\n"),
		"not not": head + "  - {id: a, tool: t, when: \"" + fill("not ") + "\"}", "sums": steps(250, "  - {id: s%d, tool: t, when: 'inputs.x"+strings.Repeat("+1", 1500)+" > 0'}\n#%d\n"),
		"steps": steps(1001, "  - {id: s%d, tool: t}\n#%d\n"), "20000 steps": steps(20000, "  - {id: s%d, tool: t}\n#%d\n"), "chain": steps(1000, "  - {id: s%d, tool: t, depends_on: s%d}\n"),
		"dense": dense, "unknown fields": head + "  - {" + fill("prmpt: 1, ") + "}", "unknown steps": head + keys("  - {id: s%d, tool: t, depends_on: [nope_nope_nope_nope_nope_nope]}\n"), "duplicates": head + fill(step),
		"one line": "{name: t, steps: [" + fill("{id: a, tool: t, whenn: 1}, ") + "]}", "one line of templates": "{name: t, steps: [" + strings.Repeat(`{id: a, tool: t, args: {x: "{{inputs.nope}}"}}, `, 1000) + "]}",
		"comments": fill("# x\n") + head + step, "blank": fill("\n"), "spaces": fill(" "), "tabs": fill("\t"), "documents": head + step + fill("---\n"), "directives": fill("%YAML 1.2\n"),
		"line ends": "name: t\rsteps:\r  - {id: a, subagent: r, prompt: \"{{nope}}\"}\r\n\u0085\u2028\u2029", "mixed": "name: t\u2028steps: []\n", "bidi": "name: \u202et\nstep\u202es: []\n", "escape": "name: \"\\e[31mred\"\nsteps: [\"\\u202e\"]\n",
		"regexp": head + "  - {id: a, tool: t, when: 'inputs.x matches \"((a{100}){100}){100}\"'}", "schema": head + "  - {id: a, tool: t, output: {" + fill(`a: {b: c}, `) + "}}", "schema cycle": head + "  - {id: a, tool: t, output: {$ref: \"#\"}}",
		"deep schema": head + "  - {id: a, tool: t, output: " + strings.Repeat("{not: ", 55) + "{}" + strings.Repeat("}", 55) + "}", "digits": head + "  - {id: a, tool: t, retry: " + fill("1") + "}", "big digits": head + "  - {id: a, tool: t, args: {x: " + fill("9") + "}}",
		"bare braces": head + "  - {id: a, tool: t, args: {x: [" + many(9000, "{{y%d}}, ") + "]}}", "bare braces in lines": head + "  - id: a\n    tool: t\n    args:\n" + many(12000, "      - {{y%d}}\n"), "bare maps": "[" + many(9000, "{{a: %d}: 2},") + "]",
		"broken braces": head + "  - id: a\n    tool: " + fill("{{a}} x"), "open braces in flow": "x: " + fill("{{"), "tagged": "[" + many(25000, "!a.b%d,") + "]", "late indent": head + many(9000, "  - {id: a%d, tool: t}\n") + "   x: y\n",
		"late deeper": "name: t\n" + fill("# x\n") + "\n   x: y\n", "late in text": head + "  - id: a\n    prompt: |\n" + fill("         x: y\n") + "     x: y\n",
		"elsewhere": "{name: t, steps: [" + many(990, "{name: a%d, if: x ==, needs: [b], with: {}}, ") + "]}", "elsewhere in one": head + "  - {" + many(14000, "if%d: 1, if: 2, ") + "}", "commented": steps(1000, "  - {id: s%d, tool: t, when: any(inputs.x, # y\n   %d)}\n"),
		"unfinished": "{name: t, steps: [" + many(3500, "{id: a%d, tool: t, when: (}, ") + "]}", "keywords": head + "  - {id: a, tool: t, output: {" + many(18000, "propertes%d: {}, ") + "}}", "deep keywords": head + "  - {id: a, tool: t, output: " + strings.Repeat("{nott: 1, not: ", 55) + "{}" + strings.Repeat("}", 55) + "}",
		"quoted header": "a: \"x: |\n" + fill("      y, y, y\n") + "\"", "block then list": "a: [\"x: |\n     y\",\n" + fill("     a,") + "]",
	}
}

// Whatever is fed to it, Parse answers soon, needs little and says where.
func TestHostile(t *testing.T) {
	limit := time.Second // of processor time; ten times the goal, since machines differ
	if faults.Raced {
		limit = 5 * time.Second
	}
	for name, text := range hostile() {
		best, need, ps := time.Hour, uint64(0), recipe.Problems(nil)
		for range 2 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := spent(t)
			_, ps = recipe.Parse(name, []byte(text))
			took := spent(t) - start
			runtime.ReadMemStats(&after)
			best, need = min(best, took), after.TotalAlloc-before.TotalAlloc
			if best < limit {
				break
			}
		}
		t.Logf("%-22s %8d bytes %10v %4d MiB %4d problems", name, len(text), best.Round(10*time.Microsecond), need>>20, len(ps))
		if best > limit {
			t.Errorf("%s: took %v", name, best)
		}
		if need > 200<<20 {
			t.Errorf("%s: allocated %d MiB", name, need>>20)
		}
		for i, p := range ps {
			if i < 30 {
				inFile(t, []byte(text), p)
			}
		}
		if shown := ps.Error(); len(shown) > 100_000 || strings.ContainsAny(shown, "\u202e\x1b\x00\u2028\u0085\r") {
			t.Errorf("%s: the message is not clean or long: %d bytes", name, len(shown))
		}
	}
}

// What the file is refused for is said.
func TestHostileSays(t *testing.T) {
	t.Parallel()
	all := hostile()
	for name, want := range map[string]string{
		"empty": "the recipe is empty; it needs a name and steps", "2 MiB": "over 1 MiB", "utf-16": "bad byte at offset 0", "utf-16be": "bad byte at offset 0", "latin-1": "bad byte at offset 9",
		"late bad byte": "must be UTF-8", "alias bomb": "YAML aliases are not allowed", "deep flow": "more than 64 deep", "deep block": "more than 64 deep", "deep indent": "more than 64 deep", "list": "over 30000 values", "steps": "over 1,000 steps",
		"id": "at most", "tabs": "empty", "zeros": "control character U+0000", "bidi": "hidden character U+202E", "regexp": "pattern is too large", "condition": "over 4096 characters",
	} {
		_, ps := recipe.Parse(name, []byte(all[name]))
		if !strings.Contains(ps.Error(), want) && name != "id" && name != "regexp" {
			t.Errorf("%s: %v; want %q", name, ps, want)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	text := []byte("name: t\nsteps:\n  - id: a\n    subagent: r\n    prompt: |\n" + strings.Repeat("      {{inputs.x}}\n", 5000))
	_, ps := recipe.Parse("f.yaml", text)
	if len(ps) != 1001 || !strings.Contains(ps[1000].Text, "over 1000 problems") {
		t.Errorf("%d problems, the last: %v", len(ps), ps[len(ps)-1])
	}
	if lines := strings.Split(ps.Error(), "\n"); len(lines) != 21 || lines[20] != "and 981 more" || !strings.HasPrefix(lines[0], "f.yaml:6:9: ") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}
