package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/model"
)

const (
	clearAt   = 0.6 // of the window: old results are cut down
	compactAt = 0.8 // of the window: what came before is summed up
	keepLast  = 6   // messages that stay as they are
	oldResult = 2000
	oldHead   = 600 // bytes that are left of a result that is larger than oldResult
)

// level is the data of the event "context": how much of the model's window a conversation
// takes. It is live-only, unless something was done about it.
type level struct {
	Agent  string `json:"agent"`
	Used   int    `json:"used"` // tokens, about
	Window int    `json:"window,omitempty"`
	Action string `json:"action,omitempty"` // cleared or Compacted, "" for nothing
}

// The ways to shorten a long conversation.
const (
	cleared   = "cleared"   // old results of tools were cut down
	compacted = "compacted" // a summary took the place of all but the last messages
)

// measure notes the length of the conversation that a turn reported.
func (r *run) measure(u model.Usage) {
	if u.In > 0 {
		r.used = u.In + u.Out
	}
	if r.window > 0 {
		r.scope.Live("context", level{Agent: r.Name, Used: r.used, Window: r.window})
	}
}

// trim compacts a conversation before a turn if it nears the window. The compaction is recorded, and a turn that has already begun gets the same
// conversation again, whatever the window is by now.
func (r *run) trim(ctx context.Context, n int) error {
	_, begun := r.scope.Hint(turnKey(r.prefix, n))
	due := func(key string, at float64) bool {
		_, done := r.scope.Done(key)
		if done = r.scope.Does(key, done); done || begun {
			return done
		}
		return r.window > 0 && float64(r.used) >= at*float64(r.window)
	}
	if key := fmt.Sprintf("%sclear-%d", r.prefix, n); due(key, clearAt) && r.clear(keepLast) {
		if err := r.mark(ctx, key, "context", level{r.Name, r.used, r.window, cleared}); err != nil {
			return err
		}
	}
	if key := fmt.Sprintf("%scompact-%d", r.prefix, n); due(key, compactAt) {
		shorter, err := r.shrink(ctx, key, false)
		if err != nil {
			return err
		}
		if shorter {
			r.trimmed = n + 1
		}
	}
	return nil
}

// compact sums up the conversation before a turn because a user asks for it. A turn that has already begun gets the same conversation again. An external
// agent keeps its conversation itself.
func (r *run) compact(ctx context.Context, n int) error {
	if r.trimmed == n+1 || r.external() {
		return nil
	}
	key := fmt.Sprintf("%scompact-%d-asked", r.prefix, n)
	_, done := r.scope.Done(key)
	if _, begun := r.scope.Hint(turnKey(r.prefix, n)); begun && !r.scope.Does(key, done) {
		return nil
	}
	_, err := r.shrink(ctx, key, false)
	return err
}

// clear truncates the results before the last messages, and reports whether there were any.
func (r *run) clear(keep int) bool {
	some := false
	for i := range r.out.Messages[:max(0, len(r.out.Messages)-keep)] {
		m := &r.out.Messages[i]
		if m.Role != model.Tool || !slices.ContainsFunc(m.Parts, large) {
			continue
		}
		parts := slices.Clone(m.Parts)
		for k := range parts {
			if p := &parts[k]; large(*p) {
				start := head(p.Text, oldHead)
				p.Text = fmt.Sprintf("%s\n[… the other %d bytes of this old result were left out; call the tool again if you need them]", start, len(p.Text)-len(start))
			}
		}
		before := size(*m)
		m.Parts, some, r.out.Shortened = parts, true, true
		r.used -= (before - size(*m)) / bytesPerToken
	}
	return some
}

func large(p model.Part) bool { return p.Kind == model.Result && len(p.Text) > oldResult }

const summaryPrompt = "Sum up the conversation so that its work can be continued with by somebody who has not read it: " +
	"what is wanted, what was found and done, what was decided and why, what was tried in vain, and what is left. Give names, paths and " +
	"numbers exactly. Say nothing else."

// shrink asks the model to summarize all but the first and the last messages, and reports whether the conversation became shorter. If the provider
// rejects the conversation, shrink also truncates older tool results.
func (r *run) shrink(ctx context.Context, key string, refused bool) (bool, error) {
	shorter := false
	bytes := 0
	for _, m := range r.out.Messages {
		bytes += size(m)
	}
	if refused {
		shorter = r.clear(1)
	}
	first, last := r.split()
	if last == 0 && shorter { // a turn that was begun with less is begun with less again
		return true, r.mark(ctx, key, "context", level{r.Name, r.used, r.window, cleared})
	} else if last == 0 {
		return false, nil
	}
	most := bytes * 9 / 10
	if refused {
		most = bytes / 2
	}
	req := &model.Request{System: summaryPrompt, Messages: []model.Message{model.UserText(written(r.out.Messages[:last], most))}}
	r.quiet = true // a summary is not what the agent says
	resp, err := r.ask(ctx, ctx, key, req, "")
	r.quiet = false
	if tooLong.is(err) && !refused { // the window is smaller than was said: the turn will be refused, and tell
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("summing the conversation up: %w", err)
	}
	r.out.Usage = r.out.Usage.Add(resp.Usage)
	sum, whole := summary(resp)
	if !whole {
		return shorter, nil // what is no whole summary would lose something
	}
	r.out.Shortened = true
	kept := r.out.Messages[last:]
	r.used = len(r.Prompt) / bytesPerToken
	r.out.Messages = slices.Clone(r.out.Messages[:first])
	for _, m := range r.out.Messages {
		r.used += size(m) / bytesPerToken
	}
	r.add(sum)
	for _, m := range kept {
		r.add(m)
	}
	return true, r.mark(ctx, key+"/level", "context", level{r.Name, r.used, r.window, compacted})
}

// split returns the range of messages to summarize, from first to before last, or 0 if there are too few. The range covers at least half of the text if
// possible. The message after it never begins with results: no model accepts results without the turn that they answer.
func (r *run) split() (first, last int) {
	const least = 2 // messages that are worth a summary
	all := 0
	for _, m := range r.out.Messages {
		all += size(m)
	}
	last = 0
	for keep := keepLast; keep >= 1; keep -= 2 {
		at := max(0, len(r.out.Messages)-keep)
		for at > 0 && r.out.Messages[at].Role == model.Tool {
			at--
		}
		if at < 1+least {
			continue
		}
		kept := 0
		for _, m := range r.out.Messages[at:] {
			kept += size(m)
		}
		if last = at; 2*kept <= all {
			break
		}
	}
	return 1, last
}

// written formats a conversation as a text of about at most that many bytes. A model that is sent calls needs the tools for them, and a plain text makes
// clear that the model is not part of the conversation. To shorten the text, the middle of its longest parts is left out.
func written(messages []model.Message, most int) string {
	for longest := most; ; longest /= 2 {
		var b []byte
		for _, m := range messages {
			for _, p := range m.Parts {
				switch p.Kind {
				case model.Text:
					b = fmt.Appendf(b, "%s: %s\n\n", m.Role, middle(p.Text, longest))
				case model.ToolCall:
					b = fmt.Appendf(b, "%s calls %s with %s\n\n", m.Role, p.Call.Name, middle(string(p.Call.Args), longest))
				case model.Result:
					b = fmt.Appendf(b, "result of %s: %s\n\n", p.Call.Name, middle(p.Text, longest))
				}
			}
		}
		const least = 100
		if len(b) <= most || longest < least {
			return string(b)
		}
	}
}

// middle removes the middle of a text that is too long.
func middle(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s\n[… %d bytes …]\n%s", head(s, most*3/4), len(s)-most, tail(s, most/4))
}
