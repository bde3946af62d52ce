package anthropic

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/model"
)

// tooManyTokens finds the limit in "max_tokens: 64000 > 8192, which is the maximum allowed number
// of output tokens for …".
var tooManyTokens = regexp.MustCompile(`max_tokens: \d+ > (\d+)`)

// Relax implements [wire.Turn]: it leaves out or rewrites settings that the server has rejected for
// this model. Models differ in how they think, and whether they have a temperature, an effort or an
// output format. Only the server's answer is always up to date on that.
func (r *request) Relax(fail *model.Error) bool {
	if fail.Status != http.StatusBadRequest && fail.Status != http.StatusUnprocessableEntity || fail.Err == nil {
		return false
	}
	text := fail.Err.Error()
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case says("max_tokens") && r.lowerLimit(text):
	case r.Thinking != nil && says("thinking.type.enabled", "budget_tokens") && r.Thinking.Type == "enabled":
		r.Thinking = &thinking{Type: "adaptive", Display: "summarized"}
	case r.Thinking != nil && r.Thinking.Display != "" && says("display"):
		r.Thinking.Display = ""
	case r.Thinking != nil && says("adaptive") && r.Thinking.Type == "adaptive":
		r.fixedThinking(r.MaxTokens / 2)
	case says("signature", "thinking` block", "redacted_thinking") && r.forgetThinking():
	case r.Thinking != nil && says("hinking"): // the tool loop was begun by a model that did not think
		r.Thinking = nil
	case r.ToolChoice != nil && says("tool_choice"):
		r.onlyTool()
	case r.Temperature != nil && says("temperature"):
		r.Temperature = nil
	case r.OutputConfig != nil && r.OutputConfig.Effort != "" && says("effort"):
		r.OutputConfig.Effort = ""
		r.trimConfig()
	case r.OutputConfig != nil && r.OutputConfig.Format != nil && says("output_config", "output_format", "format", "schema", "tructured output"):
		return r.relaxFormat()
	case r.OutputConfig != nil && says("output_config"):
		r.OutputConfig = nil
	default:
		return false
	}
	return true
}

// lowerLimit uses the limit that the server named.
func (r *request) lowerLimit(text string) bool {
	found := tooManyTokens.FindStringSubmatch(text)
	if found == nil {
		return false
	}
	limit, err := strconv.Atoi(found[1])
	if err != nil || limit <= 0 || limit >= r.MaxTokens {
		return false
	}
	r.MaxTokens = limit
	if r.Thinking != nil && r.Thinking.Type == "enabled" {
		r.fixedThinking(r.Thinking.Budget)
	}
	return true
}

// forgetThinking leaves out the thinking of earlier turns, and reports whether there was any.
func (r *request) forgetThinking() bool {
	found := false
	for i := range r.Messages {
		msg := &r.Messages[i]
		n := len(msg.Content)
		msg.Content = slices.DeleteFunc(msg.Content, func(b block) bool { return b.Type == "thinking" || b.Type == "redacted_thinking" })
		found = found || len(msg.Content) < n
	}
	if found {
		r.Thinking = nil // a tool loop that began with thinking needs it to go on thinking
	}
	return found
}

// onlyTool makes a tool that had to be called the only one there is.
func (r *request) onlyTool() {
	if i := slices.IndexFunc(r.Tools, func(t tool) bool { return t.Name == r.ToolChoice.Name }); i >= 0 {
		r.Tools = []tool{r.Tools[i]}
	}
	r.ToolChoice = nil
	r.mark()
}

// relaxFormat asks for the answer by a tool in place of the format.
func (r *request) relaxFormat() bool {
	r.OutputConfig.Format = nil
	r.trimConfig()
	if r.answerByTool() != nil {
		return false
	}
	r.mark()
	return true
}

func (r *request) trimConfig() {
	if *r.OutputConfig == (outputConfig{}) {
		r.OutputConfig = nil
	}
}
