package definition

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
)

// builtinTools are the names of the tools that come with this program.
var builtinTools = []string{
	"read_file", "write_file", "edit_file", "ls", "glob", "grep", "search_docs", "web_search", "web_fetch", "bash",
	"think", "todo", "ask_user", "skill", "task", "task_batch", "run_workflow", "collect_workflow", "save_workflow",
}

// others are what the tools of other programs are called, in lower case, and ours that do the same.
// Without one, what the tool does is not done here.
var others = map[string][]string{
	// Claude Code
	"read": {"read_file"}, "write": {"write_file"}, "edit": {"edit_file"}, "multiedit": {"edit_file"},
	"notebookread": {"read_file"}, "notebookedit": {"edit_file"}, "ls": {"ls"}, "list": {"ls"}, "glob": {"glob"}, "grep": {"grep"},
	"bash": {"bash"}, "bashoutput": nil, "killbash": nil, "killshell": nil, "webfetch": {"web_fetch"}, "websearch": {"web_search"},
	"task": {"task", "task_batch"}, "agent": {"task", "task_batch"}, "todowrite": {"todo"}, "todoread": {"todo"},
	"taskcreate": {"todo"}, "taskget": {"todo"}, "tasklist": {"todo"}, "taskupdate": {"todo"}, "taskoutput": nil, "taskstop": nil,
	"skill": {"skill"}, "askuserquestion": {"ask_user"}, "exitplanmode": nil, "enterplanmode": nil, "slashcommand": nil, "lsp": nil,
	"toolsearch": nil, "sendmessage": nil, "enterworktree": nil, "exitworktree": nil, "monitor": nil,
	"listmcpresourcestool": nil, "readmcpresourcetool": nil,
	// opencode
	"patch": {"edit_file"}, "apply_patch": {"edit_file"}, "question": {"ask_user"}, "codesearch": {"web_search"},
	"external_directory": nil, "doom_loop": nil, "plan_enter": nil, "plan_exit": nil,
	// Copilot
	"execute": {"bash"}, "shell": {"bash"}, "powershell": {"bash"}, "web": {"web_search", "web_fetch"}, "todos": {"todo"},
	"search": {"glob", "grep"}, "custom-agent": {"task", "task_batch"}, "runsubagent": {"task", "task_batch"},
	"readfile": {"read_file"}, "view": {"read_file"}, "listdirectory": {"ls"}, "editfiles": {"edit_file", "write_file"},
	"createfile": {"write_file"}, "createdirectory": {"write_file"}, "codebase": {"glob", "grep"}, "filesearch": {"glob"}, "textsearch": {"grep"},
	"usages": {"grep"}, "findtestfiles": {"glob", "grep"}, "fetch": {"web_fetch"},
	"runcommands": {"bash"}, "runinterminal": {"bash"}, "runtasks": {"bash"}, "runtests": {"bash"}, "runtask": {"bash"},
	"getterminaloutput": nil, "terminallastcommand": nil, "terminalselection": nil, "problems": nil, "changes": nil, "testfailure": nil,
	"searchresults": nil, "githubrepo": nil, "vscodeapi": nil, "extensions": nil, "opensimplebrowser": nil, "new": nil, "runnotebooks": nil,
}

// groups are tools of Copilot that are several of ours.
var groups = map[string][]string{
	"read": {"read_file", "ls"}, "edit": {"edit_file", "write_file"}, "multiedit": {"edit_file", "write_file"}, "write": {"edit_file", "write_file"},
}

// families are the first words of tools such as edit/createFile.
var families = []string{"read", "edit", "search", "execute", "web", "agent", "todo", "vscode"}

var (
	callLike   = regexp.MustCompile(`(?s)^([^()\s]+)\s*\((.*)\)$`)
	serverTool = regexp.MustCompile(`^([A-Za-z0-9_.-]+)/([A-Za-z0-9_.*-]+)$`)
	mcpTool    = regexp.MustCompile(`^mcp__[A-Za-z0-9_-]+\*?$`)
	toolName   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}\*?$`)
	notName    = regexp.MustCompile(`[^A-Za-z0-9_*-]`)
)

// A Wish is what a list of tools in a file comes to.
type Wish struct {
	All    bool     // every tool, as the list has a *
	Tools  []string // by our names, in the order of the list, each once
	Rules  []string // of those with a pattern, such as bash(git *)
	Agents []string // that Task or Agent names; nil if neither names any
}

// Tools reads a list of tools as other programs write it, such as the allowed-tools of a skill.
// Known are tools there are besides those that come with this program. It gives what is odd about it.
func Tools(list []string, dialect Dialect, known []string) (Wish, []string) {
	r := &reader{dialect: dialect, known: known}
	w := &wish{}
	for _, s := range list {
		r.wish(w, &frontmatter.Value{Kind: frontmatter.Text, Text: s}, false)
	}
	var odd []string
	for _, x := range r.warnings {
		odd = append(odd, x.Text)
	}
	return w.Wish, odd
}

type wish struct {
	Wish
	whole []string // the tools that are named without a pattern
}

func (w *wish) tools(names ...string) {
	for _, n := range names {
		if !slices.Contains(w.Tools, n) {
			w.Tools = append(w.Tools, n)
		}
	}
}

func (w *wish) rule(rule string) {
	if !slices.Contains(w.Rules, rule) {
		w.Rules = append(w.Rules, rule)
	}
}

// wish reads one entry of a list of tools. Deny says that it is a list of what is not allowed.
func (r *reader) wish(w *wish, v *frontmatter.Value, deny bool) {
	name, pattern := v.Text, ""
	if m := callLike.FindStringSubmatch(name); m != nil {
		name, pattern = m[1], strings.TrimSpace(m[2])
	}
	if name == "*" {
		w.All = true
		return
	}
	names := r.ours(name, v.Line, v.Col)
	if pattern == "" || pattern == "*" {
		w.tools(names...)
		w.whole = append(w.whole, names...)
		if pattern == "*" && !deny {
			for _, n := range names {
				w.rule(n)
			}
		}
		return
	}
	if slices.Contains(names, "task") {
		if w.Agents == nil {
			w.Agents = []string{}
		}
		for a := range strings.SplitSeq(pattern, ",") {
			if a = agentName(a); a != "" && !slices.Contains(w.Agents, a) {
				w.Agents = append(w.Agents, a)
			}
		}
		if !deny {
			w.tools(names...)
		}
		return
	}
	if !deny {
		w.tools(names...)
	}
	if strings.EqualFold(name, "edit") { // a rule about edits is one about everything that writes
		names = []string{"edit_file", "write_file"}
	}
	for _, n := range names {
		w.rule(rule(n, pattern))
	}
}

// rule is a rule of ours. Claude Code writes git:* for a command that begins with git.
func rule(tool, pattern string) string {
	if p, ok := strings.CutSuffix(pattern, ":*"); ok && tool == "bash" {
		pattern = p + " *"
	}
	return tool + "(" + pattern + ")"
}

// ours are the tools of ours that a name stands for.
func (r *reader) ours(name string, line, col int) []string {
	low := strings.ToLower(name)
	if r.dialect == Copilot {
		if names, ok := groups[low]; ok {
			return names
		}
	}
	names, theirs := others[low]
	if !theirs || r.dialect == Superstep { // to others, task is every way to start an agent
		if slices.Contains(builtinTools, name) || slices.Contains(r.known, name) {
			return []string{name}
		}
	}
	if theirs {
		if names == nil {
			r.warn(line, col, "the tool %s has no counterpart here and is left out", shown(name))
		}
		return names
	}
	if mcpTool.MatchString(name) {
		if strings.Count(name, "__") == 1 && !strings.HasSuffix(name, "*") {
			name += "__*" // all of a server
		}
		return []string{name}
	}
	if m := serverTool.FindStringSubmatch(name); m != nil {
		return r.qualified(m[1], m[2], line, col)
	}
	if strings.Contains(name, "*") {
		return r.glob(low, line, col)
	}
	r.warn(line, col, "there is no tool %s%s", shown(name), suggest.Hint(name, r.toolNames()))
	if !toolName.MatchString(name) {
		return nil
	}
	return []string{name} // there may be one later
}

// qualified are the tools of a name such as server/tool or edit/createFile.
func (r *reader) qualified(first, second string, line, col int) []string {
	family := strings.ToLower(first)
	if !slices.Contains(families, family) {
		return []string{"mcp__" + notName.ReplaceAllString(first, "_") + "__" + notName.ReplaceAllString(second, "_")}
	}
	if second == "*" {
		return r.ours(family, line, col)
	}
	names, ok := others[strings.ToLower(second)]
	if !ok || names == nil {
		r.warn(line, col, "the tool %s has no counterpart here and is left out", shown(first+"/"+second))
		return nil
	}
	return names
}

// glob are the tools of a pattern, as opencode has it: of its own tools, or of a server.
func (r *reader) glob(pattern string, line, col int) []string {
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	for _, n := range slices.Concat(builtinTools, r.known) {
		if ok, err := path.Match(pattern, n); err == nil && ok {
			add(n)
		}
	}
	var matched []string
	for n := range others {
		if ok, err := path.Match(pattern, n); err == nil && ok {
			matched = append(matched, n)
		}
	}
	slices.Sort(matched)
	for _, n := range matched {
		add(others[n]...)
	}
	if server, ok := strings.CutSuffix(pattern, "_*"); ok && len(out) == 0 && toolName.MatchString(server) {
		return []string{"mcp__" + server + "__*"}
	}
	if len(out) == 0 {
		r.warn(line, col, "no tool is called %s", shown(pattern))
		if toolName.MatchString(pattern) {
			return []string{pattern}
		}
	}
	return out
}

// toolNames are what may have been meant.
func (r *reader) toolNames() []string {
	names := slices.Concat(builtinTools, r.known)
	if r.dialect != Superstep {
		names = append(names, "Read", "Write", "Edit", "MultiEdit", "LS", "Glob", "Grep", "Bash", "WebFetch", "WebSearch", "Task", "TodoWrite", "Skill")
	}
	return names
}
