package permit

import (
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/tool"
)

// claudeName gives the names here of a tool of Claude Code, nil if there is none.
func claudeName(name string) []string {
	switch name {
	case "Bash":
		return []string{"bash"}
	case "Read":
		return []string{"read_file", "grep"}
	case "Write":
		return []string{"write_file"}
	case "Edit", "MultiEdit", "NotebookEdit":
		return []string{"edit_file", "write_file"}
	case "LS":
		return []string{"ls"}
	case "Glob":
		return []string{"glob"}
	case "Grep":
		return []string{"grep"}
	case "WebFetch":
		return []string{"web_fetch"}
	case "WebSearch":
		return []string{"web_search"}
	case "Task", "Agent":
		return []string{"task"}
	case "TodoWrite", "TodoRead":
		return []string{"todo"}
	case "Skill":
		return []string{"skill"}
	}
	return nil
}

// ParseClaude reads a rule as Claude Code writes them, such as "Bash(git:*)", "Read(./src/**)",
// "WebFetch(domain:example.com)" or "mcp__github", and gives those that mean the same here: a
// rule on reading also holds for grep, one on editing also for write_file. A rule as they are written here is
// taken, too.
func ParseClaude(d tool.Decision, text, source string) ([]Rule, error) {
	body := strings.TrimSpace(text)
	name, rest, hasPattern := strings.Cut(body, "(")
	names := claudeName(name)
	if names == nil {
		if strings.HasPrefix(name, "mcp__") && strings.Count(name, "__") == 1 && !hasPattern {
			body += "__*" // all tools of a server
		}
		r, err := Parse(d, body, source)
		if err != nil && name != "" && strings.ToUpper(name[:1]) == name[:1] {
			if near := suggest.Closest(name, claudeNames()); near != "" {
				return nil, &SyntaxError{Text: text, Col: 1, Problem: fmt.Sprintf("no tool %q; did you mean %q?", shorten(name), near)}
			}
		}
		return []Rule{r}, err
	}
	pattern, closed := strings.CutSuffix(rest, ")")
	if hasPattern && !closed {
		return nil, &SyntaxError{Text: text, Col: len([]rune(text)) + 1, Problem: "the pattern is not closed; end it with )"}
	}
	if pattern == "*" || pattern == "" {
		hasPattern = false
	}
	var out []Rule
	for _, n := range names {
		patterns := []string{""}
		if hasPattern {
			patterns = claudePatterns(n, pattern)
		}
		for _, p := range patterns {
			r, err := Parse(d, Rule{Tool: n, Pattern: p}.String(), source)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
	}
	return out, nil
}

func claudeNames() []string {
	return []string{"Bash", "Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "LS", "Glob", "Grep", "WebFetch", "WebSearch", "Task", "Agent", "TodoWrite", "Skill"}
}

// claudePatterns translates the pattern for a tool.
func claudePatterns(name, pattern string) []string {
	switch kindOf(name) {
	case kindShell:
		if prefix, ok := strings.CutSuffix(pattern, ":*"); ok {
			return []string{strings.TrimSpace(prefix) + " *"}
		}
	case kindPath:
		// As in .gitignore, with "//" for absolute paths and "/" for the folder of the settings.
		switch {
		case strings.HasPrefix(pattern, "//"):
			pattern = pattern[1:]
		case strings.HasPrefix(pattern, "/"):
			pattern = "./" + strings.TrimLeft(pattern, "/")
		case strings.HasPrefix(pattern, "~"), strings.HasPrefix(pattern, "./"):
		case !strings.Contains(strings.TrimSuffix(pattern, "/"), "/"):
			pattern = "**/" + pattern
		}
		pattern = strings.TrimSuffix(pattern, "/")
		if !strings.HasSuffix(pattern, "*") {
			return []string{pattern, pattern + "/**"} // a folder stands for what is in it
		}
	}
	return []string{pattern}
}

// A Setting is one line of a map of permissions: a tool, maybe a pattern, and what is decided.
type Setting struct {
	Tool     string
	Pattern  string // "" for the whole tool
	Decision string
}

// ParseOpencode reads permissions as opencode writes them, in the order of the file: a tool and a
// decision, as in "edit: ask", or patterns of a tool, as in "bash: {git push: ask, *: allow}". There the last
// pattern that matches wins; here "*" holds for what no other pattern of the list matches, and of the others the
// strictest wins. Where the two differ, this is the stricter.
func ParseOpencode(settings []Setting, source string) ([]Rule, error) {
	var out []Rule
	for _, s := range settings {
		d, err := ParseDecision(s.Decision)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", shorten(s.Tool), err)
		}
		names := opencodeName(s.Tool)
		for _, n := range names {
			for _, text := range opencodeRules(n, s.Pattern) {
				r, err := Parse(d, text, source)
				if err != nil {
					return nil, err
				}
				r.Otherwise = s.Pattern == "*" && d != tool.Allow
				out = append(out, r)
			}
		}
	}
	return out, nil
}

func opencodeName(name string) []string {
	switch name {
	case "read":
		return []string{"read_file", "grep"}
	case "edit", "patch", "multiedit":
		return []string{"edit_file", "write_file"}
	case "write":
		return []string{"write_file"}
	case "list":
		return []string{"ls"}
	case "webfetch":
		return []string{"web_fetch"}
	case "websearch", "codesearch":
		return []string{"web_search"}
	case "todowrite", "todoread":
		return []string{"todo"}
	case "question":
		return []string{"ask_user"}
	}
	return []string{name}
}

func opencodeRules(name, pattern string) []string {
	if pattern == "" || pattern == "*" {
		return []string{name}
	}
	if kindOf(name) == kindURL {
		pattern = strings.TrimPrefix(strings.TrimPrefix(pattern, "https://"), "http://")
		host, _, _ := strings.Cut(pattern, "/")
		return []string{name + "(domain:" + host + ")"}
	}
	if kindOf(name) == kindPath && strings.HasSuffix(pattern, "*") && !strings.HasSuffix(pattern, "**") {
		return []string{name + "(" + pattern + ")", name + "(" + pattern + "/**)"} // a star there also matches "/"
	}
	return []string{name + "(" + pattern + ")"}
}
