package script

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/strict"
)

func FuzzManifest(f *testing.F) {
	for _, s := range []string{
		"description: d\ncommand: [./run.sh, x]\ninput: {a: string, 'b?': 'integer[]', c: [x, y]}\ntimeout: 5s\n",
		"name: x\ndescription: |\n  a\n  b\ncommand:\n  - ./x\nenv: [A, B]\noutput: {type: object}\n",
		`{"description": "d", "command": ["x"], "input": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}}`,
		"description: d\ncommand: [a]\ninput: {a: {pattern: '(', type: string}}\n", "---\n---\n", "\ufeff{", "a: &a [*a]", "input: {type: object, items: [[[[[[[[[[[[[[",
		"description: d\ncommand: [a]\ninput: {type: object, properties: {a: {type: [string, 'null'], enum: [1], default: {a: 1}}}}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, problems := parseManifest("t.tool.yaml", "t", b)
		if m == nil && len(problems) == 0 {
			t.Fatal("neither a manifest nor a problem")
		}
		for _, p := range problems {
			if text := p.Error(); !utf8.ValidString(text) || clean.Text(text) != text {
				t.Fatalf("%q", text)
			}
			if p.Line < 0 || p.Column < 0 || m != nil && !p.Warning {
				t.Fatalf("%+v", p)
			}
		}
		if m == nil {
			return
		}
		if nameProblem(m.name, nil) != "" || len(m.command) == 0 || m.input == nil || m.input.Type != "object" || clean.Text(m.description) != m.description {
			t.Fatalf("%+v", m)
		}
		if _, err := m.input.Resolve(nil); err != nil {
			t.Fatal(err)
		}
	})
}

// However the lines of a process are cut, they give the same answer, within the limit.
func FuzzProtocol(f *testing.F) {
	for _, s := range []string{
		"M {\"type\":\"chunk\",\"text\":\"a\"}\nM {\"type\":\"result\",\"total\":1}\n",
		"noise\nM {\"type\":\"chunk\",\"text\":\"{\\\"message\\\":\\\"x\\\"}\"}\nM {\"type\":\"failure\"}",
		"M {\"type\":\"result\",\"total\":-5}\n", "M {\"type\":\"result\",\"total\":9e99}\n", "M \nM {}\nM null\nM [1]\nN {\"type\":\"result\"}\n",
		"M {\"type\":\"chunk\",\"text\":\"\\ud800\"}\nM {\"type\":\"result\"}\nM {\"type\":\"failure\"}\n",
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, limit int) {
		limit = max(0, min(limit, 1<<16))
		var log, log2 []byte
		a := readAnswer(bytes.NewReader(b), "M", limit, func(p []byte) { log = append(log, p...) })
		o := readAnswer(iotest.OneByteReader(bytes.NewReader(b)), "M", limit, func(p []byte) { log2 = append(log2, p...) })
		x, _ := json.Marshal(log)
		y, _ := json.Marshal(log2)
		if !bytes.Equal(x, y) || (a == nil) != (o == nil) {
			t.Fatal("it matters how the lines are cut")
		}
		if a == nil {
			return
		}
		if a.text != o.text || len(a.text) > limit || a.dropped < 0 {
			t.Fatalf("%+v %+v", a, o)
		}
	})
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"anyOf":[{"type":"string","pattern":"(?!x)"},{"$ref":"#"}]}}}`), true)
	f.Add([]byte(`{"type":"object","items":[{}],"patternProperties":{"(":{}},"$id":"x","$schema":"y"}`), false)
	f.Fuzz(func(t *testing.T, b []byte, lenient bool) {
		s, err := strict.SchemaReader{Lenient: lenient, Note: func(string) {}}.Read(b, true)
		if err != nil {
			if clean.Text(err.Error()) != err.Error() {
				t.Fatalf("%q", err)
			}
			return
		}
		out, err := json.Marshal(s)
		if err != nil || strings.Contains(string(out), "\x1b") {
			t.Fatalf("%s %v", out, err)
		}
	})
}

func FuzzSourceMap(f *testing.F) {
	f.Add([]byte(`{"version":3,"sources":["a.ts"],"mappings":"AAAA;AACA,CAAC"}`), "at f (superstep-bundle.mjs:2:1)")
	f.Fuzz(func(_ *testing.T, m []byte, stack string) {
		(&bundle{sourceMap: m}).frame(stack)
	})
}
