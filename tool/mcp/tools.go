package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/tool"
)

// A Summary is a server's description of one tool, as far as it matters for trust.
type Summary struct {
	Name        string          `json:"name"`   // the server's own
	Digest      string          `json:"digest"` // "sha256:hex" over the rest, uncut
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`  // its schema, canonical
	Output      json.RawMessage `json:"output,omitempty"` // the same
	Annotations json.RawMessage `json:"annotations,omitempty"`
}

// An Offer is a server's description of itself and its tools.
type Offer struct {
	Digest       string    // over the tools, whatever their order, and the instructions
	Tools        []Summary // in the order of the server
	Instructions string    // cleaned and bounded
}

// Diff returns what changed from o to now, for people, as diff gives it, and a line about the
// instructions if they changed. A nil Offer is empty.
func (o *Offer) Diff(now *Offer) string {
	from, to := o, now
	if from == nil {
		from = new(Offer)
	}
	if to == nil {
		to = new(Offer)
	}
	text := diff(from.Tools, to.Tools)
	if from.Instructions != to.Instructions {
		was, is := difference(from.Instructions, to.Instructions)
		text += fmt.Sprintf("~ its instructions\n    - %s\n    + %s\n", was, is)
	}
	return text
}

// summarize returns the canonical form of a tool: keys sorted, nothing left out that a model or a
// decision may depend on.
func summarize(t *sdk.Tool) (s Summary, err error) {
	canonical := func(v any, there bool) (out json.RawMessage) {
		if there && err == nil {
			out, err = json.Marshal(v)
		}
		return out
	}
	s = Summary{
		Name: t.Name, Description: t.Description, Input: canonical(t.InputSchema, t.InputSchema != nil),
		Output: canonical(t.OutputSchema, t.OutputSchema != nil), Annotations: canonical(t.Annotations, t.Annotations != nil),
	}
	s.Digest = digest(canonical([]any{s.Name, t.Title, s.Description, s.Input, s.Output, s.Annotations}, true))
	return s, err
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// listDigest returns the digest of a list of tools, whatever its order; see Options.Pin.
func listDigest(tools []Summary) string {
	var lines []string
	for _, t := range tools {
		lines = append(lines, t.Digest)
	}
	slices.Sort(lines)
	return digest([]byte("tools 1\n" + strings.Join(lines, "\n")))
}

// diff returns what changed from one list of tools to another, for people: a line for each tool
// that came (+), went (-) or differs (~), and below the last what differs. It is "" if nothing
// changed.
func diff(before, after []Summary) string {
	old, now := byName(before), byName(after)
	both := maps.Clone(old)
	maps.Copy(both, now)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(both)) {
		was, had := old[name]
		is, has := now[name]
		shown := oneLine(name, 100)
		switch {
		case !had:
			fmt.Fprintf(&b, "+ %s: %s\n", shown, oneLine(is.Description, 200))
		case !has:
			fmt.Fprintf(&b, "- %s\n", shown)
		case was.Digest != is.Digest:
			fmt.Fprintf(&b, "~ %s\n", shown)
			for _, part := range [][3]string{
				{"description", was.Description, is.Description}, {"input", string(was.Input), string(is.Input)},
				{"output", string(was.Output), string(is.Output)}, {"annotations", string(was.Annotations), string(is.Annotations)},
			} {
				if part[1] != part[2] {
					from, to := difference(part[1], part[2])
					fmt.Fprintf(&b, "    %s: - %s\n    %s  + %s\n", part[0], from, strings.Repeat(" ", len(part[0])), to)
				}
			}
		}
	}
	return b.String()
}

func byName(tools []Summary) map[string]Summary {
	out := make(map[string]Summary, len(tools))
	for _, t := range tools {
		out[t.Name] = t
	}
	return out
}

// difference shows two texts from shortly before their first difference.
func difference(a, b string) (string, string) {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i = max(0, i-30); i > 0 {
		for i > 0 && i < len(a) && a[i]&0xc0 == 0x80 {
			i--
		}
	}
	show := func(s string) string {
		lead := ""
		if i > 0 {
			lead = "…"
		}
		return lead + oneLine(s[min(i, len(s)):], 200)
	}
	return show(a), show(b)
}

var unnamed = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// toolNames assigns each tool of a server a name that models can call and that no other tool has:
// mcp__server__tool. Where that is too long, has other characters or could be that of another, a
// part of a digest of the real name stands at its end. A name does not depend on the other tools
// of the server, unless two would have the same.
func toolNames(server string, tools []string) map[string]string {
	out, used := make(map[string]string, len(tools)), map[string]int{}
	for _, t := range tools {
		out[t] = toolName(server, t, false)
		used[out[t]]++
	}
	for _, t := range tools {
		if used[out[t]] > 1 {
			out[t] = toolName(server, t, true)
		}
	}
	return out
}

func toolName(server, name string, always bool) string {
	clean := unnamed.ReplaceAllString(name, "_")
	full := "mcp__" + server + "__" + clean
	if !always && clean == name && len(full) <= 64 && !strings.Contains(server, "__") && !strings.HasSuffix(server, "_") && !strings.HasPrefix(server, "_") {
		return full
	}
	sum := sha256.Sum256([]byte(server + "\x00" + name))
	end := "_" + hex.EncodeToString(sum[:4])
	return full[:min(len(full), 64-len(end))] + end
}

// effect returns the effect of a tool according to its annotations. They are only the server's
// claim, so they decide only what is repeated after a crash: tools that read, or for which a second
// call changes nothing more. Only a server whose annotations the user trusts has tools that count
// as pure, which callers may use without asking.
func effect(a *sdk.ToolAnnotations, trusted bool) tool.Effect {
	switch {
	case a == nil:
		return tool.Once
	case a.ReadOnlyHint && trusted:
		return tool.Pure
	case a.ReadOnlyHint || a.IdempotentHint:
		return tool.Idempotent
	}
	return tool.Once
}

// define creates a tool, without Run, from a server's description, and reports what was cleaned.
func define(name string, t *sdk.Tool, trusted bool) (*tool.Tool, []string, error) {
	var notes []string
	text := t.Description
	if text == "" {
		text = t.Title
	}
	if plain := clean.Text(text); plain != text {
		text = plain
		notes = append(notes, "control characters were stripped from its description")
	}
	if cut := clean.Clip(text, maxDescription); cut != text {
		text = cut
		notes = append(notes, fmt.Sprintf("its description was cut to %d KiB", maxDescription>>10))
	}
	schema, more, err := inputSchema(t.InputSchema)
	if err != nil {
		return nil, nil, err
	}
	return &tool.Tool{Name: name, Description: text, Input: schema, Effect: effect(t.Annotations, trusted)}, append(notes, more...), nil
}

// inputSchema reads a schema as others can rely on it. The server checks arguments as well, so what Go cannot check is left out.
func inputSchema(in any) (out *jsonschema.Schema, notes []string, err error) {
	if in == nil {
		return nil, nil, errors.New("has no input schema")
	}
	b, err := json.Marshal(in)
	if err != nil {
		return nil, nil, err
	}
	r := strict.SchemaReader{Lenient: true, Foreign: true, Note: func(string) { notes = []string{"control characters were stripped from its schema"} }}
	if out, err = r.Read(b, true); err != nil {
		return nil, nil, fmt.Errorf("its input schema %s", oneLine(err.Error(), 300))
	}
	return out, notes, nil
}
