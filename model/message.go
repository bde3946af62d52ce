package model

import "strings"

// UserText returns a user message that says s.
func UserText(s string) Message {
	return Message{Role: User, Parts: []Part{{Kind: Text, Text: s}}}
}

// ToolResult returns the tool message that answers call with text. With isErr the
// tool failed, and text says why. A turn that asked for several calls is answered by
// one such message each, or by one message with the parts of all.
func ToolResult(call Call, text string, isErr bool) Message {
	answered := Call{ID: call.ID, Name: call.Name}
	return Message{Role: Tool, Parts: []Part{{Kind: Result, Text: text, Call: &answered, Error: isErr}}}
}

// Text returns the text of the message: its text parts, one directly after the other.
// Reasoning and results are not part of it.
func (m Message) Text() string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Kind == Text {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Calls returns the tool calls of the message in order, nil when there are none. The
// arguments are shared with the message.
func (m Message) Calls() []Call {
	var calls []Call
	for _, p := range m.Parts {
		if p.Kind == ToolCall && p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}
