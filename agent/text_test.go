package agent

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/model"
)

// What is shown of a text is its beginning and its end, never half a character, and never
// more than is allowed.
func FuzzParts(f *testing.F) {
	f.Add("a\nb\nc", 3)
	f.Add(strings.Repeat("é\n", 50), 7)
	f.Add("\xff\xfe\xfd\xfc", 2)
	f.Fuzz(func(t *testing.T, s string, most int) {
		if most = most % 5000; most < 0 {
			most = -most
		}
		h, e := head(s, most), tail(s, most)
		if len(h) > most || len(e) > most || !strings.HasPrefix(s, h) || !strings.HasSuffix(s, e) {
			t.Fatalf("%q, %q of %q", h, e, s)
		}
		if utf8.ValidString(s) && (!utf8.ValidString(h) || !utf8.ValidString(e)) {
			t.Fatalf("%q, %q of %q", h, e, s)
		}
		_ = middle(s, most)
		text := written([]model.Message{model.UserText(s), {Role: model.Tool, Parts: []model.Part{{Kind: model.Result, Text: s, Call: &model.Call{Name: "x"}}}}}, most)
		if len(text) > max(most, 1000) {
			t.Fatalf("%d bytes, at most %d", len(text), most)
		}
	})
}

var fileName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,120}$`)

// The name of a file for a result is one on every system, and of that result only.
func FuzzSpillName(f *testing.F) {
	f.Add("work/task[1.1]/explorer", "turn-0/call-0", "read_file")
	f.Add("", "", "")
	f.Add("..", "/", "con")
	f.Fuzz(func(t *testing.T, path, key, name string) {
		got := spillName(path, key, name)
		if !fileName.MatchString(got) || strings.HasPrefix(got, ".") || got == spillName(path, key+"x", name) {
			t.Fatalf("%q", got)
		}
	})
}

// Whatever an answer is, it allows only what it says that it does.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`"once"`, `"deny: no"`, `{"decision":"run","reason":"x"}`, `null`, `[]`, `{"decision":7}`, `"always "`, `"once: but"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		decision, _ := parseAnswer(json.RawMessage(s))
		switch decision {
		case AnswerOnce, AnswerRun, AnswerAlways:
			var word string
			var object struct{ Decision string }
			if (json.Unmarshal([]byte(s), &word) != nil || word != decision) && (json.Unmarshal([]byte(s), &object) != nil || object.Decision != decision) {
				t.Fatalf("%q is %s", s, decision)
			}
		}
	})
}

func TestUnfenced(t *testing.T) {
	for s, want := range map[string]string{
		" {} ": "{}", "```json\n{}\n```": "{}", "```\n[1]\n```\n": "[1]", "```JSON \n{}\n```": "{}",
		"```go\nx\n```": "```go\nx\n```", "```": "```", "``````": "``````", "see ```json\n{}\n```": "see ```json\n{}\n```",
	} {
		if got := unfenced(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

// What is kept of a conversation never begins with results, whatever was said in between.
func TestSplit(t *testing.T) {
	call := model.Message{Role: model.Assistant, Parts: []model.Part{{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "x"}}}}
	result := model.Message{Role: model.Tool, Parts: []model.Part{{Kind: model.Result, Text: "y", Call: &model.Call{ID: "1", Name: "x"}}}}
	for pattern := range 1 << 8 {
		r := &run{Agent: &Agent{}}
		r.add(model.UserText("go"))
		for i := range 8 {
			r.add(call)
			r.add(result)
			if pattern&(1<<i) != 0 {
				r.add(model.UserText("notice"))
			}
			first, last := r.split()
			if last > first && (r.out.Messages[last].Role == model.Tool || first != 1 || last >= len(r.out.Messages)) {
				t.Fatalf("pattern %b: %d to %d of %d", pattern, first, last, len(r.out.Messages))
			}
			if len(r.out.Messages) > 10 && last <= first {
				t.Fatalf("pattern %b: nothing of %d messages", pattern, len(r.out.Messages))
			}
		}
	}
}
