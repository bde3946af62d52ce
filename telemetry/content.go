package telemetry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
)

// maxContent is how many bytes an attribute with content may have.
const maxContent = 8 << 10

// content returns an attribute with content, redacted and then cut: half of a secret is not recognized as one.
func (f *fold) content(key, text string) attribute.KeyValue {
	text = f.s.opt.Redact(text)
	if len(text) > maxContent {
		const mark = "…"
		text = text[:maxContent-len(mark)]
		for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
			text = text[:len(text)-1]
		}
		if r, n := utf8.DecodeLastRuneInString(text); r == utf8.RuneError && n == 1 {
			text = text[:len(text)-1]
		}
		text += mark
	}
	return attribute.String(key, strings.ToValidUTF8(text, "\ufffd"))
}

func message(role, text string) json.RawMessage {
	b, _ := json.Marshal(map[string]any{"role": role, "parts": []map[string]string{{"type": "text", "content": text}}}) // no value fails
	return b
}

func list[T any](all []T) string {
	b, _ := json.Marshal(all)
	return string(b)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// digest returns the version of an agent: a digest of its prompt and tools, "" for an agent of an older log.
func digest(system string, tools map[string]string) string {
	if system == "" && len(tools) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(system + "\x00" + strings.Join(sortedKeys(tools), ",")))
	return hex.EncodeToString(sum[:6])
}

func (f *fold) agentAttrs(a *agent, path string) []attribute.KeyValue {
	if !f.live {
		return nil
	}
	attrs := append(make([]attribute.KeyValue, 0, 16), attribute.String(keyAgentName, a.name), attribute.String(keyAgentID, path))
	if a.version != "" {
		attrs = append(attrs, attribute.String(keyAgentVersion, a.version))
	}
	if !f.s.opt.Content {
		return attrs
	}
	slices.Sort(a.tools)
	for _, c := range []struct{ key, text string }{
		{keySystem, a.system}, {keyInputMessages, list([]json.RawMessage{message("user", a.prompt)})}, {keyTools, list(a.tools)},
	} {
		attrs = append(attrs, f.content(c.key, c.text))
	}
	return attrs
}

// dialects adds the names that some readers prefer to the attributes of a span.
func (f *fold) dialects(op string, attrs []attribute.KeyValue) []attribute.KeyValue {
	o := &f.s.opt
	if !o.Langfuse && !o.OpenInference {
		return attrs
	}
	kinds := map[string][2]string{opChat: {"generation", "LLM"}, opTool: {"tool", "TOOL"}, opAgent: {"agent", "AGENT"}}
	kind, ok := kinds[op]
	if !ok {
		kind = [2]string{"span", "CHAIN"}
	}
	if o.Langfuse {
		attrs = append(attrs, attribute.String("langfuse.observation.type", kind[0]), attribute.String("session.id", f.run))
	}
	if !o.OpenInference {
		return attrs
	}
	other := map[string]string{keyModel: "llm.model_name", keyInput: "llm.token_count.prompt", keyOutput: "llm.token_count.completion", keyTool: "tool.name",
		keyInputMessages: "input.value", keyArguments: "input.value", keyOutputMessages: "output.value", keyResult: "output.value"}
	for _, a := range attrs {
		if name := other[string(a.Key)]; name != "" {
			attrs = append(attrs, attribute.KeyValue{Key: attribute.Key(name), Value: a.Value})
		}
	}
	return append(attrs, attribute.String("openinference.span.kind", kind[1]))
}
