package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/renameio/v2/maybe"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/definition"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// skillTool reads skills. The prompt of each agent lists the available ones.
func (p *project) skillTool() (*tool.Tool, error) {
	type args struct {
		Name string `json:"name,omitempty" jsonschema:"the name of the skill; leave it out for the list"`
		File string `json:"file,omitempty" jsonschema:"a file of the skill to read instead of its instructions, as they name it"`
	}
	skills := p.UsableSkills()
	return tool.New("skill", "Read a skill: instructions, written by people, of how to do something. Read the one that fits before you begin.",
		func(_ context.Context, in args) (string, error) {
			if in.Name == "" {
				var list string
				for _, s := range skills {
					list += fmt.Sprintf("- %s: %s\n", s.Name, s.Description)
				}
				return list, nil
			}
			k, err := skills.Find(in.Name)
			if err != nil {
				return "", err
			}
			if in.File != "" {
				return k.ReadFile(in.File)
			}
			text, err := k.Load()
			if err != nil {
				return "", err
			}
			if len(k.Files) > 0 {
				text += fmt.Sprintf("\n\nThe skill's folder is %s. Its files:", k.Source.Path)
				for _, f := range k.Files {
					text += fmt.Sprintf("\n- %s (%d bytes)", f.Path, f.Size)
				}
			}
			return text, nil
		}, &tool.Options{Effect: tool.Pure})
}

// askUser returns the tool with which an agent asks the user a question.
func askUser() *agent.Action {
	return &agent.Action{
		Tool: &tool.Tool{
			Name:        "ask_user",
			Description: "Ask the person you work for one question, when you cannot go on without the answer and cannot find it out yourself. The work waits for it.",
			Input: &jsonschema.Schema{
				Type: "object",
				Properties: map[string]*jsonschema.Schema{
					"question": {Type: "string", Description: "the question, complete in itself"},
					"options":  {Type: "array", Items: &jsonschema.Schema{Type: "string"}, Description: "answers to choose from; leave it out for a free answer"},
				},
				Required:             []string{"question"},
				PropertyOrder:        []string{"question", "options"},
				AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
			},
		},
		Scoped: true,
		Run: func(ctx context.Context, scope *journal.Scope, c *tool.Call) (tool.Result, error) {
			var in struct {
				Question string   `json:"question"`
				Options  []string `json:"options"`
			}
			if err := json.Unmarshal(c.Args, &in); err != nil {
				return tool.Result{}, err
			}
			answer, err := scope.Ask(ctx, &runlog.Question{Key: "ask", Kind: runlog.QuestionAsk, Agent: c.Agent, Text: clean.Text(in.Question), Options: in.Options})
			if err != nil {
				return tool.Result{}, err
			}
			var text string
			if json.Unmarshal(answer, &text) != nil {
				text = string(answer)
			}
			return tool.Result{Text: text}, nil
		},
	}
}

// spill writes a result that is too large for a conversation to the run's results folder, and
// returns its path.
func (p *project) spill(run, name, text string) (string, error) {
	dir := p.h.results(run)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, maybe.WriteFile(path, []byte(readable(p.h.Redactor().Text(text))), 0o600)
}

// readable formats a result in lines that read_file can page through: it indents JSON, and breaks
// lines of over 1,000 bytes.
func readable(text string) string {
	const longest = 1000
	if json.Valid([]byte(text)) {
		var b bytes.Buffer
		if json.Indent(&b, []byte(text), "", "  ") == nil {
			text = b.String()
		}
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		for len(line) > longest {
			n := longest
			for n > longest-utf8.UTFMax && !utf8.RuneStart(line[n]) {
				n--
			}
			b.WriteString(line[:n])
			b.WriteByte('\n')
			line = line[n:]
		}
		b.WriteString(line)
	}
	return b.String()
}

// delegating wraps an action of a team for an agent that may not start every other agent. Its
// definition may exclude agents by name, or deny tools that a sub-agent has or could pass on to its
// own sub-agents.
func (p *project) delegating(d *definition.Definition, action *agent.Action) *agent.Action {
	if d.Agents == nil && len(d.NoAgents) == 0 && len(d.Disallowed) == 0 {
		return action
	}
	bound := *action
	bound.Run = func(ctx context.Context, scope *journal.Scope, c *tool.Call) (tool.Result, error) {
		type task struct {
			Agent string `json:"agent"`
		}
		var in struct {
			task
			Tasks []task `json:"tasks"`
		}
		if err := json.Unmarshal(c.Args, &in); err != nil {
			return tool.Result{}, err
		}
		for _, t := range append(in.Tasks, in.task) {
			other, err := p.Agent(t.Agent)
			if err != nil {
				continue // the team says so
			}
			if !d.MayStart(other.Name) {
				return tool.Result{Text: fmt.Sprintf("agent %s may not have agent %s do anything", d.Name, t.Agent), Error: true}, nil
			}
			for _, name := range d.Disallowed {
				if other.MayUse(name) || other.MayUse("task") || other.MayUse("task_batch") {
					return tool.Result{Text: fmt.Sprintf("agent %s may not have agent %s do anything: %s is taken from it, and the other has "+
						"that, or others who may have", d.Name, t.Agent, name), Error: true}, nil
				}
			}
		}
		return action.Run(ctx, scope, c)
	}
	return &bound
}
