package wire

import (
	"strings"

	"github.com/superstep-dev/superstep/model"
)

// marks separates reasoning from text at the beginning of an answer whose server leaves that to the reader: <think>…</think>, and the channels of GPT-OSS,
// <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…. A byte order mark is none of the answer.
type marks struct {
	held   string // may be the beginning of a mark
	within string // the mark that ends the reasoning, "" outside
	opened bool   // there was a mark
	begun  bool   // the text has
	tail   string // what ends the text and is none of it, "" if nothing does
}

const (
	channel, message, channelEnd, channelStart, channelReturn = "<|channel|>", "<|message|>", "<|end|>", "<|start|>assistant", "<|return|>"
	think, thinkEnd                                           = "<think>", "</think>"
	maxChannel                                                = 100 // bytes of a channel's name
)

// split returns what of a delta, and of what was held, is reasoning and text by now. The last delta is followed by nothing.
func (m *marks) split(delta string, last bool) (reasoning, text string) {
	m.held += delta
	for {
		switch {
		case m.within != "":
			before, after, ended := strings.Cut(m.held, m.within)
			if !ended {
				keep := overlap(m.held, m.within)
				if last {
					keep = 0
				}
				reasoning += m.held[:len(m.held)-keep]
				m.held = m.held[len(m.held)-keep:]
				return reasoning, text
			}
			reasoning += before
			m.held, m.within = after, ""
		case m.begun:
			out := m.held
			if m.held = ""; m.tail != "" {
				keep := overlap(out, m.tail)
				if strings.HasSuffix(out, m.tail) {
					keep = len(m.tail)
				}
				if last && keep < len(m.tail) {
					keep = 0
				}
				out, m.held = out[:len(out)-keep], out[len(out)-keep:]
			}
			return reasoning, text + out
		default:
			rest := strings.TrimLeft(m.held, " \t\r\n\ufeff")
			if m.opens(rest) {
				continue
			}
			if !last && couldOpen(rest) {
				return reasoning, text
			}
			if m.begun = true; !m.opened {
				rest = strings.TrimPrefix(m.held, "\ufeff")
			}
			m.held = rest
		}
	}
}

// opens takes a mark at the beginning of what is left, if there is a whole one.
func (m *marks) opens(rest string) bool {
	if after, is := strings.CutPrefix(rest, think); is {
		m.held, m.within, m.opened = after, thinkEnd, true
		return true
	}
	rest = strings.TrimPrefix(rest, channelStart)
	after, is := strings.CutPrefix(rest, channel)
	if !is {
		return false
	}
	name, after, is := strings.Cut(after, message)
	if !is || len(name) > maxChannel {
		return false
	}
	if m.held, m.opened = after, true; strings.HasPrefix(name, "final") {
		m.begun, m.tail = true, channelReturn
		return true
	}
	m.within = channelEnd
	return true
}

// couldOpen reports whether what is left may yet become a mark.
func couldOpen(rest string) bool {
	for _, mark := range []string{think, channel, channelStart + channel} {
		if strings.HasPrefix(mark, rest) {
			return true
		}
		if name, is := strings.CutPrefix(rest, mark); is && mark != think && len(name) <= maxChannel+len(message) {
			return true
		}
	}
	return false
}

// overlap returns the length of the longest end of a text with which a mark begins.
func overlap(text, mark string) int {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if strings.HasPrefix(mark, text[len(text)-n:]) {
			return n
		}
	}
	return 0
}

// Say yields a delta of text or reasoning; an empty one is none. Marks of reasoning in the text are taken for what they mean.
func (o *Out) Say(kind model.PartKind, text string) error {
	if text == "" {
		return nil
	}
	if err := o.Grow(len(text)); err != nil {
		return err
	}
	if kind != model.Text {
		return o.Emit(model.Part{Kind: kind, Text: text})
	}
	return o.read(text, false)
}

func (o *Out) read(delta string, last bool) error {
	reasoning, text := o.marks.split(delta, last)
	if reasoning != "" {
		if err := o.Emit(model.Part{Kind: model.Reasoning, Text: reasoning}); err != nil {
			return err
		}
	}
	if text == "" {
		return nil
	}
	return o.Emit(model.Part{Kind: model.Text, Text: text})
}
