package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// What the SDK takes from messages that two readers may understand differently, and what we make of
// them. If the SDK changes, this says so.
func TestStricterThanTheSDK(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in  string
		sdk string // what it takes for method or result, "" if it refuses
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, "b"},
		{`{"jsonrpc":"2.0","id":1,"result":{"x":1},"result":{"x":2}}`, `{"x":2}`},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`, "a"},
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"x","name":"y"}}`, "a"},
		{`{"jsonrpc":"2.0","id":1,"method":"a","Method":"b"}`, "a"},
		{`{"jsonrpc":"2.0","id":1,"result":{},"Result":{"x":1}}`, "{}"},
		{`{"jsonrpc":"2.0","id":1,"result":{},"RE\u017fULT":{"x":1}}`, "{}"}, // ſ folds to s
		{`{"jsonrpc":"2.0","id":1,"\u006dethod":"a","method":"b"}`, "b"},
		{`{"jsonrpc":"2.0","id":1.5,"method":"a"}`, "a"},
		{`{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, "a"},
		{`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}`, "{}"},
		{`{"jsonrpc":"2.0","id":1,"method":"a"} {"jsonrpc":"2.0","id":1,"method":"b"}`, "a"},
	} {
		got := ""
		if msg, err := jsonrpc.DecodeMessage([]byte(c.in)); err == nil {
			switch msg := msg.(type) {
			case *jsonrpc.Request:
				got = msg.Method
			case *jsonrpc.Response:
				got = string(msg.Result)
			}
		}
		if got != c.sdk {
			t.Errorf("the SDK reads %s as %q, no longer as %q", c.in, got, c.sdk)
		}
		if _, err := decodeMessage([]byte(c.in)); err == nil {
			t.Errorf("took %s", c.in)
		}
	}
	for _, in := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"a"}`, ` {"jsonrpc":"2.0","id":"x","result":{}} `, `{"jsonrpc":"2.0","method":"n","params":{"Name":"x","name":"y"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}`, `{"jsonrpc":"2.0","id":1,"result":{"a":[{"b":1},{"b":2}]},"extra":1}`,
	} {
		if _, err := decodeMessage([]byte(in)); err != nil {
			t.Errorf("refused %s: %v", in, err)
		}
	}
}

// Whatever we take, the SDK takes from it what any reader of JSON does.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":[1,{"y":null}]}}`, `{"jsonrpc":"2.0","id":"s","result":{"content":[]}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`, `{"jsonrpc":"2.0","ID":1}`, `[]`, `{"a":1,"a":2}`, `{"\u0061":1,"a":2}`, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}",
		`{"jsonrpc":"2.0","id":1,"result":` + strings.Repeat("[", 200), `{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		msg, refused := decodeMessage(data)
		if refused != nil {
			if len(refused.what) > 500 {
				t.Errorf("long error: %s", refused.what)
			}
			return
		}
		var plain map[string]json.RawMessage
		if err := json.Unmarshal(data, &plain); err != nil {
			t.Fatalf("took what is not JSON: %v", err)
		}
		switch msg := msg.(type) {
		case *jsonrpc.Request:
			var method string
			if err := json.Unmarshal(plain["method"], &method); err != nil || method != msg.Method {
				t.Errorf("method %q, plainly %q", msg.Method, method)
			}
			same(t, plain["params"], msg.Params)
		case *jsonrpc.Response:
			if plain["method"] != nil {
				t.Error("a response with a method")
			}
			same(t, plain["result"], msg.Result)
		}
	})
}

func same(t *testing.T, a, b json.RawMessage) {
	t.Helper()
	if string(a) == "null" {
		a = nil
	}
	if string(b) == "null" {
		b = nil
	}
	var x, y any
	if (a == nil) != (b == nil) {
		t.Errorf("%q and %q", a, b)
	}
	if a == nil {
		return
	}
	if json.Unmarshal(a, &x) == nil && (json.Unmarshal(b, &y) != nil || fmt.Sprint(x) != fmt.Sprint(y)) {
		t.Errorf("%s and %s", a, b)
	}
}

// Every event that is let through is one that was checked, in whatever pieces the stream comes.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"))
	f.Add([]byte("event: message\r\nid: 1\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"method\":\"a\"}\r\n\r\n"))
	f.Add([]byte("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"result\":{}}\n\nevent: endpoint\ndata: /x\n\n"))
	f.Add([]byte(": c\n\ndata\n\nretry: 5\n\nevent: ping\ndata: x\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(in io.Reader) string {
			e := &events{src: io.NopCloser(in), in: bufio.NewReader(in), fault: new(faultOnce)}
			b, _ := io.ReadAll(e)
			if e.fault.get() != nil {
				b, _ = bytes.CutSuffix(b, []byte("event: message\ndata: {}\n\n"))
			}
			return string(b)
		}
		all := read(bytes.NewReader(data))
		if piece := read(oneByte{bytes.NewReader(data)}); piece != all {
			t.Errorf("in pieces %q, at once %q", piece, all)
		}
		for event := range strings.SplitSeq(strings.TrimSuffix(all, "\n\n"), "\n\n") {
			name, data := "", ""
			for line := range strings.SplitSeq(event, "\n") {
				k, v, _ := strings.Cut(line, ": ")
				switch k {
				case "event":
					name = v
				case "data":
					data = v
				}
			}
			if name == "message" && checkMessage([]byte(data)) != nil {
				t.Errorf("let through %q", event)
			}
		}
	})
}

type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

// A schema that is taken can be used by a set of tools, says nothing of other documents, and is clean.
func FuzzSchema(f *testing.F) {
	for _, s := range []string{`{"type":"object"}`, `{"properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":true}}`, `{"$ref":"http://x"}`, `{"Type":1}`, `{"items":[{"not":{}}],"pattern":"(?!"}`, `true`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var v any
		if json.Unmarshal([]byte(in), &v) != nil {
			return
		}
		s, _, err := inputSchema(v)
		if err != nil {
			return
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if s.Type != "object" || strings.Contains(string(b), `\u001b`) {
			t.Errorf("%s", b)
		}
	})
}

func TestToolNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 80)
	names := toolNames("s", []string{"a", "a.b", "a/b", "a_b", long, long + "y", "ünï"})
	seen := map[string]bool{}
	for tool, name := range names {
		if len(name) > 64 || unnamed.MatchString(name) || seen[name] || !strings.HasPrefix(name, "mcp__s__") {
			t.Errorf("%q is %q", tool, name)
		}
		seen[name] = true
	}
	if names["a"] != "mcp__s__a" || names["a_b"] != "mcp__s__a_b" {
		t.Errorf("%v", names)
	}
	for _, two := range [][4]string{{"a", "b__c", "a__b", "c"}, {"a_", "b", "a", "_b"}, {"a", "x.y", "a", "x/y"}, {long[:64], "a", long[:64], "b"}} {
		if x, y := toolName(two[0], two[1], false), toolName(two[2], two[3], false); x == y {
			t.Errorf("%q is the name of two", x)
		}
	}
}
