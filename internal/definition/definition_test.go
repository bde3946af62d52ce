package definition_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/definition"
	"github.com/superstep-dev/superstep/internal/faults"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ptr(f float64) *float64 { return &f }

// parse reads a file that has to be fine.
func parse(t *testing.T, dialect, name, text string) *definition.Definition {
	t.Helper()
	d, problems := definition.Parse([]byte(text), definition.Source{Scope: "project", Dialect: dialect, Path: "/p/" + name}, nil)
	if d == nil {
		t.Fatalf("%s: %v", name, problems)
	}
	return d
}

func warnings(d *definition.Definition) []string {
	var out []string
	for _, w := range d.Warnings {
		out = append(out, fmt.Sprintf("%d:%d %s", w.Line, w.Col, w.Text))
	}
	return out
}

// ignored are the fields of a definition that tables do not look at.
var ignored = cmpopts.IgnoreFields(definition.Definition{}, "Source", "Digest", "Warnings")

func TestClaude(t *testing.T) {
	t.Parallel()
	d := parse(t, definition.Claude, "reviewer.md", `---
name: code-reviewer
description: |
  Use after changes.
  <example>user: "review"</example>
tools: Read, MultiEdit, Bash(git:*), Bash(npm run test:*), mcp__github__get_issue, mcp__linear, Task(explorer, Code Writer), LS, mcp__context7__*
disallowedTools: [Write, WebFetch, "Bash(git push:*)", "Edit(secrets/**)"]
model: sonnet
permissionMode: bypassPermissions
maxTurns: 12
skills:
  - pdf-forms
  - brand
mcpServers:
  - github
  - slack: {command: npx, env: {TOKEN: hush}}
hooks:
  PreToolUse:
    - matcher: Bash
      hooks: [{type: command, command: "curl x"}]
memory: project
background: false
effort: high
isolation: worktree
color: cyan
---

You review.
`)
	want := &definition.Definition{
		Name: "code-reviewer", Description: "Use after changes.\n<example>user: \"review\"</example>", Prompt: "You review.", Model: "sonnet",
		Tools:      []string{"read_file", "edit_file", "bash", "mcp__github__get_issue", "mcp__linear__*", "task", "task_batch", "ls", "mcp__context7__*"},
		Disallowed: []string{"write_file", "web_fetch"},
		Allow:      []string{"bash(git *)", "bash(npm run test *)"}, Only: []string{"bash(git *)", "bash(npm run test *)"},
		Deny:   []string{"bash(git push *)", "edit_file(secrets/**)", "write_file(secrets/**)"},
		Agents: []string{"explorer", "code-writer"}, MaxTurns: 12, Skills: []string{"pdf-forms", "brand"}, MCPServers: []string{"github", "slack"},
		Kind: "compiled", Effort: "high",
		Extra: map[string]any{"permissionMode": "bypassPermissions", "memory": "project", "background": false, "isolation": "worktree", "color": "cyan"},
	}
	if diff := cmp.Diff(want, d, ignored); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		`9:17 permissionMode "bypassPermissions" is not heeded; what an agent may do is for the user to say`,
		`16:5 the server "slack" that this file describes is not started; configure it, and name it here`,
		`17:1 hooks are not run`, `21:1 memory means nothing here`, `24:1 isolation means nothing here`,
	}, warnings(d)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if strings.Contains(fmt.Sprintf("%+v", d), "hush") {
		t.Error("a secret of a server got into the definition")
	}
	if d.Source.Line != 2 || d.Digest != "sha256:"+d.Digest[7:] || len(d.Digest) != 71 {
		t.Errorf("%v %s", d.Source, d.Digest)
	}
}

func TestOpenCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, header string
		want         definition.Definition
		warn         []string
	}{
		{"fields", "description: Reviews\nmode: subagent\nmodel: anthropic/claude-sonnet-4-5\ntemperature: 0.1\ntop_p: 0.9\nsteps: 7\nhidden: true\ncolor: '#ff0000'\nvariant: high",
			definition.Definition{
				Description: "Reviews", Mode: "subagent", Model: "anthropic/claude-sonnet-4-5", Temperature: ptr(0.1), TopP: ptr(0.9), MaxTurns: 7, Hidden: true,
				Extra: map[string]any{"color": "#ff0000", "variant": "high"},
			}, nil},
		{"maxSteps", "description: x\nmode: primary\nmaxSteps: 3\nprompt: other", definition.Definition{Description: "x", Mode: definition.Primary, MaxTurns: 3},
			[]string{"5:1 the text below the front matter is the prompt; this field is not used"}},
		{"tools off", "description: x\ntools:\n  write: false\n  edit: false\n  bash: true\n  mymcp_*: false\n  todo*: false",
			definition.Definition{Description: "x", Disallowed: []string{"write_file", "edit_file", "mcp__mymcp__*", "todo"}}, nil},
		{"tools only", "description: x\ntools: {'*': false, read: true, grep: true, task: false}",
			definition.Definition{Description: "x", Tools: []string{"read_file", "grep"}, Disallowed: []string{"task", "task_batch"}}, nil},
		{"tools, the last wins", "description: x\ntools: {write: false, '*': true}", definition.Definition{Description: "x"}, nil},
		{"permissions", "description: x\npermission:\n  edit: deny\n  webfetch: ask\n  websearch: allow\n  bash:\n    '*': ask\n    git status: allow\n    'git push *': deny",
			definition.Definition{
				Description: "x", Disallowed: []string{"edit_file", "write_file"}, Ask: []string{"web_fetch"},
				Allow: []string{"web_search", "bash(git status)"}, Deny: []string{"bash(git push *)"},
			}, nil},
		{"permissions, patterns only", "description: x\npermission:\n  bash: {'*': deny, 'go test *': allow, 'rm *': ask}",
			definition.Definition{
				Description: "x", Allow: []string{"bash(go test *)"}, Ask: []string{"bash(rm *)"}, Only: []string{"bash(go test *)", "bash(rm *)"},
			}, nil},
		{"permissions, the last wins", "description: x\npermission:\n  bash: {'git *': allow, '*': deny}", definition.Definition{Description: "x", Disallowed: []string{"bash"}}, nil},
		{"permissions, order lost", "description: x\npermission:\n  bash: {'git *': deny, 'git status': allow}",
			definition.Definition{Description: "x", Deny: []string{"bash(git *)"}, Allow: []string{"bash(git status)"}},
			[]string{`4:25 "git status" allows what "git *" does not; here the stricter one holds`}},
		{"ask but for some", "description: x\npermission: {'*': ask, read: allow, bash: {'ls *': allow}}", definition.Definition{
			Description: "x", Allow: []string{"read_file", "bash(ls *)"},
			Ask: []string{"mcp__*", "write_file", "edit_file", "ls", "glob", "grep", "search_docs", "web_search", "web_fetch", "think", "todo", "ask_user", "skill", "recall", "remember", "task", "task_batch", "run_workflow", "collect_workflow", "save_workflow"},
		}, nil},
		{"permission of all", "description: x\npermission: ask", definition.Definition{Description: "x", Ask: []string{"*"}}, nil},
		{"denied all but", "description: x\npermission: {'*': deny, read: allow, bash: {'git *': allow}}",
			definition.Definition{
				Description: "x", Tools: []string{"read_file"}, Allow: []string{"read_file", "bash(git *)"}, Only: []string{"bash(git *)"},
			}, nil},
		{"denied all in a map", "description: x\npermission: {'*': {'*': deny}, grep: allow}",
			definition.Definition{Description: "x", Tools: []string{"grep"}, Allow: []string{"grep"}}, nil},
		{"agents", "description: x\npermission:\n  task: {'*': deny, explore: allow, Code Helper: ask}",
			definition.Definition{
				Description: "x", Agents: []string{"explore", "code-helper"}, Ask: []string{"task(code-helper)"},
			}, nil},
		{"other agents", "description: x\npermission:\n  task: {'*': allow, 'orchestrator-*': deny}",
			definition.Definition{Description: "x", NoAgents: []string{"orchestrator-*"}, Allow: []string{"task", "task_batch"}}, nil},
		{"rules that are none here", "description: x\npermission: {webfetch: {'https://a/*': allow, 'https://b/*': deny}, todowrite: {x: ask}}",
			definition.Definition{Description: "x", Disallowed: []string{"web_fetch"}, Ask: []string{"todo"}}, []string{
				`3:1 the rule "web_fetch(https://a/*)" cannot be put that way here; it is left out`,
				`3:1 the rule "todo(x)" cannot be put that way here; all of todo is asked about`,
				`3:1 the rule "web_fetch(https://b/*)" cannot be put that way here; web_fetch is denied altogether`,
			}},
		{"no counterpart", "description: x\npermission: {doom_loop: ask, external_directory: deny}", definition.Definition{Description: "x"}, []string{
			`3:14 the tool "doom_loop" has no counterpart here and is left out`, `3:30 the tool "external_directory" has no counterpart here and is left out`,
		}},
	} {
		d := parse(t, definition.OpenCode, "deep/My Agent.md", "---\n"+c.header+"\n---\nDo it.")
		c.want.Name, c.want.Kind, c.want.Prompt = "my-agent", "compiled", "Do it."
		if c.name == "denied all but" { // bash stays, for what the pattern names
			c.want.Tools = []string{"bash", "read_file"}
		}
		if diff := cmp.Diff(&c.want, d, ignored); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.warn, warnings(d)); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", c.name, diff)
		}
	}
	d := parse(t, definition.OpenCode, "plain.md", "Just a prompt.\n")
	if d.Name != "plain" || d.Prompt != "Just a prompt." || len(d.Warnings) != 1 {
		t.Errorf("%+v", d)
	}
	if d := parse(t, definition.OpenCode, "p.md", "---\ndescription: x\nprompt: '{file:./p.txt}'\n---\n"); d.Prompt != "" || len(d.Warnings) != 2 {
		t.Errorf("%+v", d)
	}
}

func TestCopilot(t *testing.T) {
	t.Parallel()
	d := parse(t, definition.Copilot, "api-architect.agent.md", `---
name: 'API Architect'
description: 'Designs'
tools: ['Read', edit, search/codebase, 'github/get_issue', 'playwright/*', execute/runInTerminal, web, agent, todo, vscode/vscodeAPI, 'azure.mcp/do it']
model: ['GPT-5 (copilot)', 'Claude Sonnet 4.5']
target: vscode
argument-hint: [what] [where]
infer: false
mcp-servers:
  custom-mcp:
    type: local
    command: some-command
    env: {KEY: hush}
handoffs:
  - label: Start
    agent: implementer
    prompt: Go
    send: false
metadata: {a: b}
---
You design.`)
	want := &definition.Definition{
		Name: "api-architect", Title: "API Architect", Description: "Designs", Prompt: "You design.", Model: "GPT-5 (copilot)",
		Tools: []string{
			"read_file", "ls", "edit_file", "write_file", "glob", "grep", "mcp__github__get_issue", "mcp__playwright__*", "bash", "web_search", "web_fetch",
			"task", "task_batch", "todo",
		},
		MCPServers: []string{"custom-mcp"}, Mode: definition.Primary, Kind: "compiled",
		Extra: map[string]any{
			"model": []any{"GPT-5 (copilot)", "Claude Sonnet 4.5"}, "target": "vscode", "argument-hint": "[what] [where]", "metadata": map[string]any{"a": "b"},
			"handoffs": []any{map[string]any{"label": "Start", "agent": "implementer", "prompt": "Go", "send": false}},
		},
	}
	if diff := cmp.Diff(want, d, ignored); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if w := strings.Join(warnings(d), "\n"); !strings.Contains(w, "argument-hint") || !strings.Contains(w, `"vscode/vscodeAPI" has no counterpart`) || !strings.Contains(w, `no tool "azure.mcp/do it"`) || strings.Contains(w, "hush") {
		t.Errorf("warnings %s", w)
	}
	for header, want := range map[string]string{"user-invocable: false": "subagent", "disable-model-invocation: true": definition.Primary, "infer: true": ""} {
		if d := parse(t, definition.Copilot, "a.md", "---\ndescription: x\n"+header+"\n---\nx"); d.Mode != want {
			t.Errorf("%s: mode %q", header, d.Mode)
		}
	}
	for tools, want := range map[string][]string{"[]": {}, "['*']": nil, "'read, shell'": {"read_file", "ls", "bash"}, "[nonsense]": {"nonsense"}} {
		if d := parse(t, definition.Copilot, "a.md", "---\ndescription: x\ntools: "+tools+"\n---\nx"); !cmp.Equal(d.Tools, want) {
			t.Errorf("%s: %#v, want %#v", tools, d.Tools, want)
		}
	}
}

func TestSuperstep(t *testing.T) {
	t.Parallel()
	d := parse(t, definition.Superstep, "ignored.md", `---
name: mine
description: Mine
model: openai/gpt-5
tools: [read_file, grep, "bash(git *)"]
disallowed_tools: [grep]
ask: web_fetch(domain:example.com)
deny: [bash(rm *), Task(worker)]
max_turns: 5
kind: compiled
capabilities: [Research, code_review, data-analysis, flying]
skills: a, b
effort: max
temperature: 2
mode: all
tols: x
---
Work.`)
	want := &definition.Definition{
		Name: "mine", Description: "Mine", Prompt: "Work.", Model: "openai/gpt-5", Tools: []string{"read_file", "bash"}, Disallowed: []string{"grep"},
		Allow: []string{"bash(git *)"}, Only: []string{"bash(git *)"}, Ask: []string{"web_fetch(domain:example.com)"},
		Deny: []string{"bash(rm *)"}, NoAgents: []string{"worker"}, MaxTurns: 5, Kind: "compiled",
		Capabilities: []string{"research", "code-review", "data-analysis"},
		Skills:       []string{"a", "b"}, Effort: "max", Temperature: ptr(2), Extra: map[string]any{"tols": "x"},
	}
	if diff := cmp.Diff(want, d, ignored); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w := warnings(d)
	if len(w) != 2 || !strings.HasPrefix(w[0], `11:54 unknown capability "flying"`) || w[1] != `16:1 unknown field "tols"; did you mean "tools"?` {
		t.Errorf("warnings %q", w)
	}
	simple := parse(t, definition.Superstep, "s.md", "---\ndescription: x\nkind: simple\n---\nx")
	if simple.Name != "s" || simple.Kind != definition.Simple || simple.Tools == nil || len(simple.Tools) != 0 {
		t.Errorf("%+v", simple)
	}
	both := parse(t, definition.Superstep, "s.md", "---\ndescription: x\nkind: simple\ntools: ls\n---\nx")
	if both.Kind != "compiled" || len(both.Warnings) != 1 || both.Warnings[0].Line != 3 {
		t.Errorf("%+v", both)
	}
}

func TestOddFields(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"maxTurns: many":       "3:11 maxTurns must be a whole number from 1 to 10000; the default is used",
		"maxTurns: 0":          "3:11 maxTurns must be a whole number",
		"temperature: hot":     "3:14 temperature must be a number from 0 to 2; the default is used",
		"top_p: 1.5":           "3:8 top_p must be a number from 0 to 1",
		"effort: huge":         `3:9 unknown effort "huge"; it is low, medium, high, xhigh or max, and the default is used`,
		"kind: complex":        `3:7 unknown kind "complex"; it is simple or compiled`,
		"mode: main":           `3:7 unknown mode "main"; it is primary, subagent or all`,
		"hidden: perhaps":      "3:9 hidden must be true or false; false is assumed",
		"tools:":               "3:1 tools is empty, so the agent may use every tool; write [] for none",
		"tools: Raed":          `3:8 there is no tool "Raed"; did you mean "Read"?`,
		"tools: [BashOutput]":  `3:9 the tool "BashOutput" has no counterpart here and is left out`,
		"disallowedTool: x":    `3:1 unknown field "disallowedTool"; did you mean "disallowed_tools"?`,
		"model: [a, b]":        "3:8 only the first of several models is used",
		"color: #fff":          `3:1 the value of "color" begins with #`,
		"\"na\\e[31mx\": 1":    "invisible or control characters were left out",
		"x: \"\\u202e\"":       "3:4 invisible or control characters were left out",
		"skills: {a: b}":       "3:9 skills must be a list of names",
		"permissionMode: yolo": `3:17 permissionMode "yolo" is not heeded`,
	} {
		d := parse(t, definition.Claude, "a.md", "---\nname: a\n"+header+"\ndescription: x\n---\nx")
		if got := warnings(d); len(got) == 0 || !strings.Contains(got[0], want) {
			t.Errorf("%s: %q, want %s", header, got, want)
		}
	}
}

func TestHostile(t *testing.T) {
	t.Parallel()
	d := parse(t, definition.Claude, "a.md", "---\nname: \"\\e[31ma\\u202eb\"\ndescription: \"x\\e]0;owned\\ay \u202e\u200b\"\n---\nbo\x1b[1mdy")
	if d.Name != "ab" || d.Description != "xy" || d.Prompt != "body" || len(d.Warnings) != 3 {
		t.Errorf("%+v", d)
	}
	for in, want := range map[string]string{
		"":                                       "there is no front matter",
		"---\nname: a\n":                         "missing closing ---",
		"---\nname: a\ndescription: &a x\n---\n": "3:14: YAML aliases are not allowed",
		"---\nname: a\nname: b\n---\n":           `3:1: "name" is there twice, first at 2:1`,
		"---\nname: a\ntools: {Read: maybe}\n---\n":                      `3:15: the tool "Read" must be true or false`,
		"---\nname: a\ntools: [[Read]]\n---\n":                           "3:8: tools must be a list of at most 1000 names",
		"---\nname: a\ndisallowedTools: {a: b}\n---\n":                   "disallowedTools must be a list",
		"---\nname: a\npermission: {bash: maybe}\n---\n":                 `the permission for "bash" must be allow, ask or deny`,
		"---\nname: a\npermission: {bash: {x: maybe}}\n---\n":            `the permission for "x" must be`,
		"---\nname: a\ndeny: [\"b sh(x)\"]\n---\n":                       `the rule "b sh(x)" is about no tool`,
		"---\nname: a\ntools: " + strings.Repeat("x,", 1001) + "\n---\n": "at most 1000 names",
		"---\nname: [a]\n---\n":                                          "name must be a text",
		"---\nname: 世界\n---\n":                                           `the name "世界" has no letter or digit`,
		"---\ndescription: no name\n---\n":                               "there is no name; add name: a",
		"---\nname: a\nx:\n  - b: c: d\n---\n":                           "4:9: invalid YAML",
		"---\nname: a\n---\n\xff":                                        "UTF-8",
		strings.Repeat("x", 2<<20):                                       "over 1 MiB",
	} {
		d, problems := definition.Parse([]byte(in), definition.Source{Scope: "project", Dialect: definition.Claude, Path: "/p/a.md"}, nil)
		if d != nil || len(problems) == 0 || !strings.Contains(fmt.Sprintf("%d:%d: %s", problems[0].Line, problems[0].Col, problems[0].Text), want) {
			t.Errorf("%.60q: %v %v, want %s", in, d, problems, want)
		}
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	src := definition.Source{Scope: "project", Dialect: definition.Claude, Path: "/p/a.md"}
	d, problems := definition.Parse([]byte("---\nname: a\ndescription: x\ntools: Bash(git:*), Read, tavily_search, BashOutput, deploy, deploi\n---\nx"), src, []string{"deploy"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []string{
		`4:8 the tool "BashOutput" has no counterpart here and is left out`,
		`4:8 there is no tool "deploi"; did you mean "deploy"?`,
	}
	if diff := cmp.Diff([]string{"bash", "read_file", "web_search", "deploy", "deploi"}, d.Tools); diff != "" || !cmp.Equal(warnings(d), want) || !cmp.Equal(d.Allow, []string{"bash(git *)"}) {
		t.Errorf("%s %q %q", diff, warnings(d), d.Allow)
	}
	d = &definition.Definition{Tools: []string{"read_file", "mcp__a__*"}, Disallowed: []string{"mcp__a__rm*"}}
	for name, want := range map[string]bool{"read_file": true, "bash": false, "mcp__a__ls": true, "mcp__a__rmdir": false} {
		if d.MayUse(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
	if all := (&definition.Definition{}); !all.MayUse("x") || (&definition.Definition{Tools: []string{}}).MayUse("x") {
		t.Error("nil is all, empty is none")
	}
}

// A hostile file takes no longer than its length deserves.
func TestFilesTakeNoTime(t *testing.T) {
	t.Parallel()
	var patterns, tools strings.Builder
	for i := range 190 {
		fmt.Fprintf(&patterns, "    '%s%d*': %s\n", strings.Repeat("?*", 20), i, []string{"allow", "deny", "ask"}[i%3])
	}
	for i := range 490 {
		fmt.Fprintf(&tools, "  x%d*: {'a*': allow, 'b*': deny}\n", i)
	}
	for name, header := range map[string]string{
		"tools": "tools: " + strings.Repeat("Raed,", 999), "commas": "tools: " + strings.Repeat(",", 60_000), "all": "permission:\n  '*':\n" + patterns.String(),
		"globs": "permission:\n" + tools.String(), "unknown": func() string {
			var b strings.Builder
			for i := range 2500 {
				fmt.Fprintf(&b, "desciption%d: x\n", i)
			}
			return b.String()
		}(), "deny": "deny: [" + strings.Repeat("bash(a *), ", 900) + "x]", "parentheses": "tools: " + strings.Repeat("(", 60_000),
	} {
		start := time.Now()
		_, _ = definition.Parse([]byte("---\nname: a\n"+header+"\n---\nx"), definition.Source{Dialect: definition.OpenCode, Path: "a.md"}, nil)
		if took := time.Since(start); took > faults.Bound(4*time.Second) {
			t.Errorf("%s took %s", name, took)
		} else if testing.Verbose() {
			t.Logf("%s took %s", name, took)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"---\nname: a\ndescription: b: c\ntools: Read, Bash(git:*), Task(a, b)\n---\nx", "---\ntools: {'*': false, x_*: true}\n---\n",
		"---\nname: a\npermission: {'*': deny, bash: {'git *': allow}, task: {'*': deny, a: ask}}\n---\n", "---\nname: A B\nmcp-servers: {a: {b: c}}\nmodel: [x]\n---\n",
		"---\nname: a\nallow: [bash(x), '*']\nkind: simple\ncapabilities: [Research]\n---\n", "no front matter",
	} {
		f.Add([]byte(s), uint8(0))
	}
	dialects := []string{definition.Superstep, definition.Claude, definition.OpenCode, definition.Copilot}
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		src := definition.Source{Scope: "user", Dialect: dialects[int(n)%len(dialects)], Path: "/a/b.agent.md"}
		d, problems := definition.Parse(b, src, []string{"extra"})
		if (d == nil) == (len(problems) == 0) {
			t.Fatalf("%v %v", d, problems)
		}
		for _, p := range problems {
			harmless(t, p.Text)
		}
		if d == nil {
			return
		}
		if len(d.Name) == 0 || len(d.Name) > 64 || strings.Trim(d.Name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			t.Fatalf("name %q", d.Name)
		}
		harmless(t, d.Description+d.Prompt+d.Title+d.Model+strings.Join(slices.Concat(d.Tools, d.Disallowed, d.Allow, d.Ask, d.Deny, d.Only, d.Skills, d.MCPServers), ""))
		for _, w := range d.Warnings {
			harmless(t, w.Text)
		}
		for _, tool := range d.Tools {
			if !d.MayUse(tool) && !strings.HasSuffix(tool, "*") {
				t.Fatalf("%q is both allowed and not", tool)
			}
		}
	})
}

func harmless(t *testing.T, s string) {
	t.Helper()
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == 0x202e }) {
		t.Fatalf("%q", s)
	}
}

// Who may not start an agent may not start it by another of its names.
func TestMayStartOtherNames(t *testing.T) {
	t.Parallel()
	d := &definition.Definition{NoAgents: []string{"explore"}}
	if d.MayStart("explorer") || !d.MayStart("worker") {
		t.Error("not held")
	}
	if d = (&definition.Definition{Agents: []string{"task"}}); !d.MayStart("worker") || d.MayStart("explorer") {
		t.Error("not held")
	}
}
