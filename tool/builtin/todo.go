package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/plan"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/tool"
)

const mostTodos = 200

// A todo is an item of an agent's plan.
type todo struct {
	ID        string   `json:"id"`
	Content   string   `json:"content"`
	Status    string   `json:"status"` // pending, in_progress, completed or error
	BlockedBy []string `json:"blockedBy,omitempty"`
}

// todoList returns the tool "todo", with which an agent keeps its plan. Each call passes the whole list and replaces the previous one. The tool has no
// memory: the plan is the list in the conversation's last call, so it survives whatever the conversation survives. parseTodos reads it from there.
func todoList() *tool.Tool {
	type item struct {
		ID        any    `json:"id,omitempty" jsonschema:"a short name of the item; defaults to its number"`
		Content   string `json:"content" jsonschema:"what is to be done"`
		Status    any    `json:"status,omitempty" jsonschema:"pending, which is the default, in_progress, completed or error"`
		BlockedBy any    `json:"blockedBy,omitempty" jsonschema:"the ids of items that must be completed before, a list"`
	}
	type args struct {
		Todos []item `json:"todos" jsonschema:"the whole list, which replaces the one before"`
	}
	return made(tool.NewRaw("todo", "Keep a plan of several steps. Give the whole list each time; mark an item in_progress before working on "+
		"it and completed as soon as it is. The output is the list.",
		func(_ context.Context, c *tool.Call, _ args) (string, error) {
			list, err := parseTodos(c.Args)
			if err != nil {
				return "", err
			}
			return renderTodos(list), nil
		}, &tool.Options{Effect: tool.Pure, Adjust: func(s *jsonschema.Schema) {
			s.Properties["todos"].Types, s.Properties["todos"].Type = nil, "array"
			s.Properties["todos"].MaxItems = jsonschema.Ptr(mostTodos)
		}}))
}

// parseTodos reads the arguments of a call of todo as the tool does: a status in other words or of another type is
// the one it means or else pending, ids become strings, and what cannot be an id is left out.
func parseTodos(args json.RawMessage) ([]todo, error) {
	var in struct {
		Todos []struct {
			ID        any    `json:"id"`
			Content   string `json:"content"`
			Status    any    `json:"status"`
			BlockedBy any    `json:"blockedBy"`
		} `json:"todos"`
	}
	d := json.NewDecoder(strings.NewReader(string(args)))
	d.UseNumber()
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("the arguments of todo: %w", strict.Words(args, err))
	}
	if len(in.Todos) > mostTodos {
		return nil, fmt.Errorf("todos: over %d items; keep a shorter plan", mostTodos)
	}
	out := make([]todo, len(in.Todos))
	for i, t := range in.Todos {
		out[i] = todo{ID: plan.ID(t.ID), Content: oneLine(clean.Text(t.Content)), Status: plan.Status(t.Status), BlockedBy: plan.IDs(t.BlockedBy)}
		if out[i].ID == "" {
			out[i].ID = fmt.Sprint(i + 1)
		}
	}
	return out, nil
}

func renderTodos(list []todo) string {
	if len(list) == 0 {
		return "the plan is empty"
	}
	var out strings.Builder
	done := 0
	for _, t := range list {
		if t.Status == plan.Completed {
			done++
		}
		mark := map[string]string{plan.Pending: " ", plan.InProgress: "•", plan.Completed: "✓", plan.Failed: "!"}[t.Status]
		fmt.Fprintf(&out, "[%s] %s %s", mark, t.ID, t.Content)
		if len(t.BlockedBy) > 0 {
			fmt.Fprintf(&out, " (after %s)", strings.Join(t.BlockedBy, ", "))
		}
		out.WriteByte('\n')
	}
	fmt.Fprintf(&out, "%d of %d completed\n", done, len(list))
	return out.String()
}
