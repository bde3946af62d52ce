// Package toolnames holds the names of the tools that come with this program, and what other programs call
// tools that do the same.
package toolnames

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/suggest"
)

// Builtin returns the names of the tools that come with this program.
func Builtin() []string {
	return []string{
		"read_file", "write_file", "edit_file", "ls", "glob", "grep", "search_docs", "web_search", "web_fetch", "bash",
		"think", "todo", "ask_user", "skill", "recall", "remember", "task", "task_batch", "run_workflow", "collect_workflow", "save_workflow",
	}
}

// ServiceAnswer is the line in the output of web_search that introduces the service's own answer.
const ServiceAnswer = "The service's own answer, which is no source:"

// Valid reports whether a tool can have a name: 1 to 64 letters, digits, _ and -, as services of models want it.
func Valid(name string) bool {
	for _, c := range []byte(name) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= 64
}

// Prompt returns the text of a prompt of an MCP server as it is sent: behind its name, by which PromptOf knows it again.
func Prompt(name, text string) string { return name + ": " + text }

// PromptOf returns the name of the prompt that a message of a user is the text of, "" if it is none.
func PromptOf(message string) string {
	name, _, ok := strings.Cut(message[:min(len(message), 70)], ": ")
	if !ok || !strings.HasPrefix(name, "mcp__") || !Valid(name) {
		return ""
	}
	return name
}

// Common returns frequent names as other programs write them, for suggestions.
func Common() []string {
	return []string{"Read", "Write", "Edit", "MultiEdit", "LS", "Glob", "Grep", "Bash", "WebFetch", "WebSearch", "Task", "TodoWrite", "Skill"}
}

// theirs has the names of other programs' tools, in lower case, and the tools of ours that do the same, if any do.
var theirs = map[string][]string{
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
	// LangChain's deep agents, and searches of the web
	"write_todos": {"todo"}, "read_todos": {"todo"}, "tavily_search": {"web_search"}, "search_web": {"web_search"}, "internet_search": {"web_search"},
	// Gemini CLI, Cursor and Codex
	"read_many_files": {"read_file"}, "list_directory": {"ls"}, "search_file_content": {"grep"}, "run_shell_command": {"bash"},
	"google_web_search": {"web_search"}, "save_memory": nil,
	"list_dir": {"ls"}, "grep_search": {"grep"}, "file_search": {"glob"}, "codebase_search": {"glob", "grep"}, "search_replace": {"edit_file"},
	"run_terminal_cmd": {"bash"}, "update_plan": {"todo"}, "exec_command": {"bash"},
}

// groups are tools of Copilot that are several of ours.
var groups = map[string][]string{
	"read": {"read_file", "ls"}, "edit": {"edit_file", "write_file"}, "multiedit": {"edit_file", "write_file"}, "write": {"edit_file", "write_file"},
}

// Ours returns the tools of ours that do what another program's tool does: none if nothing here does it. It reports
// whether the name is known. Case does not matter.
func Ours(name string) ([]string, bool) {
	names, known := theirs[strings.ToLower(name)]
	return slices.Clone(names), known
}

// Group returns the tools of ours that a name means in an agent file of Copilot, and nowhere else.
func Group(name string) ([]string, bool) {
	names, known := groups[strings.ToLower(name)]
	return slices.Clone(names), known
}

// Theirs returns the names of other programs' tools in lower case, sorted.
func Theirs() []string { return slices.Sorted(maps.Keys(theirs)) }

// Here returns the first of the tools there are that does what a tool of another program does, "" if none is known to.
func Here(name string, tools []string) string {
	for _, n := range theirs[strings.ToLower(name)] {
		if slices.Contains(tools, n) {
			return n
		}
	}
	return ""
}

// Hint returns an end of sentence about a name that none of the tools has: what the tool is called here, what was
// probably meant, or nothing.
func Hint(name string, tools []string) string {
	if here := Here(name, tools); here != "" {
		return fmt.Sprintf("; here it is called %q", here)
	}
	return suggest.Hint(name, tools)
}
