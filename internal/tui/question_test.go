package tui

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

// No part of a call is approved unseen: its arguments are shown however long they are, and those that its subject leaves out.
func TestCardShowsAllArguments(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("please look at the notes. ", 200) + "AND THE TAIL"
	for name, c := range map[string]runlog.QuestionCall{
		"long":         {Tool: "mcp__mail__send", Subject: `{"text":"please look…`, Args: json.RawMessage(`{"text":"` + long + `"}`)},
		"task":         {Tool: "task", Subject: "explorer", Args: json.RawMessage(`{"agent":"explorer","prompt":"AND THE TAIL"}`)},
		"run_workflow": {Tool: "run_workflow", Subject: "publish", Args: json.RawMessage(`{"name":"publish","inputs":{"to":"AND THE TAIL"}}`)},
	} {
		lines, folded := card(&c, "", 20)
		if text := strings.Join(lines, "\n"); folded > 0 || !strings.Contains(text, "AND THE TAIL") {
			t.Errorf("%s: not all is shown:\n%s", name, text)
		}
	}
	c := runlog.QuestionCall{Tool: "mcp__mail__send", Args: json.RawMessage("{\"to\":\"a\u202eb\"}")}
	if lines, _ := card(&c, "", 20); !strings.Contains(strings.Join(lines, "\n"), "characters that are not shown") {
		t.Errorf("hidden characters are not told of:\n%s", strings.Join(lines, "\n"))
	}
}
