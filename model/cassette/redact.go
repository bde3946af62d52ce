package cassette

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/model"
)

// A Redactor takes secrets out of texts and of JSON, which stays valid. It leaves its own
// placeholders unchanged. A *redact.Redactor of package runlog/redact is one.
type Redactor interface {
	Text(s string) string
	JSON(data []byte) []byte
}

// shapes redacts text that looks like a credential. It is the default Redactor.
type shapes struct{}

const hidden = "[secret]"

var credentials = regexp.MustCompile(strings.Join([]string{
	`\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}`,                           // OpenAI, Anthropic and those that call theirs alike
	`\bAIza[A-Za-z0-9_-]{20,}`,                                    // Google
	`\bya29\.[A-Za-z0-9_-]{20,}`,                                  // Google, OAuth
	`\bgh[pousr]_[A-Za-z0-9]{20,}`,                                // GitHub
	`\bgithub_pat_[A-Za-z0-9_]{20,}`,                              // GitHub
	`\bglpat-[A-Za-z0-9_-]{16,}`,                                  // GitLab
	`\bxox[a-z]-[A-Za-z0-9-]{10,}`,                                // Slack
	`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`,                               // AWS
	`\bhf_[A-Za-z0-9]{20,}`,                                       // Hugging Face
	`\bgsk_[A-Za-z0-9]{20,}`,                                      // Groq
	`\bnpm_[A-Za-z0-9]{20,}`,                                      // npm
	`\b[Bb]earer +[A-Za-z0-9._~+/-]{16,}=*`,                       // headers
	`\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*`, // JSON Web Tokens
	`-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`,
}, "|"))

// Every credential contains one of marks, and hardly any other text does.
var marks = []string{
	"sk-", "pk-", "rk-", "AIza", "ya29.", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "AKIA", "ASIA",
	"hf_", "gsk_", "npm_", "earer ", "eyJ", "PRIVATE KEY",
}

// Text implements [Redactor].
func (shapes) Text(s string) string {
	if !slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(s, m) }) {
		return s
	}
	return credentials.ReplaceAllLiteralString(s, hidden)
}

var literals = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// JSON implements [Redactor]. It examines the decoded strings, so it finds a credential after an
// escaped line break too.
func (r shapes) JSON(data []byte) []byte {
	if !bytes.ContainsRune(data, '\\') && !slices.ContainsFunc(marks, func(m string) bool { return bytes.Contains(data, []byte(m)) }) {
		return data
	}
	return literals.ReplaceAllFunc(data, func(literal []byte) []byte {
		var text string
		if json.Unmarshal(literal, &text) != nil {
			return []byte(r.Text(string(literal)))
		}
		clean := r.Text(text)
		if clean == text {
			return literal
		}
		out, _ := encode(clean) // a string always can
		return out
	})
}

// redactParts redacts the parts of a turn. Deltas that together contain a secret are merged.
func redactParts(r Redactor, parts []part) []part {
	var out []part
	for i := 0; i < len(parts); {
		p := parts[i]
		if p.Kind != model.Text && p.Kind != model.Reasoning {
			if p.Call != nil {
				p.Call = redactCall(r, p.Call)
			}
			out = append(out, p)
			i++
			continue
		}
		run, took := i, int64(0)
		var said strings.Builder
		for run < len(parts) && parts[run].Kind == p.Kind {
			said.WriteString(parts[run].Text)
			took += parts[run].MS
			if run++; parts[run-1].Opaque != nil {
				break
			}
		}
		if clean := r.Text(said.String()); clean != said.String() {
			out = append(out, part{MS: took, Kind: p.Kind, Text: clean, Opaque: parts[run-1].Opaque})
		} else {
			out = append(out, parts[i:run]...)
		}
		i = run
	}
	return out
}

func redactCall(r Redactor, c *call) *call {
	out := &call{ID: r.Text(c.ID), Name: r.Text(c.Name), Args: redactArgs(r, c.Args)}
	if c.Raw != "" {
		out.Raw = string(redactArgs(r, json.RawMessage(c.Raw)))
	}
	return out
}

// redactArgs redacts arguments. The result is always valid arguments.
func redactArgs(r Redactor, args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return nil
	}
	clean := json.RawMessage(r.JSON(args))
	if json.Valid(args) && !json.Valid(clean) {
		return json.RawMessage(`{"redacted":"all of it"}`)
	}
	return clean
}
