package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/model"
)

// Gemini is the generateContent protocol of Google's Gemini API. Calls of a [Reply] without an
// id are sent without one: the protocol does not need them.
type Gemini struct{}

// Path implements [Wire].
func (Gemini) Path() string { return "/v1beta" }

type geminiRequest struct {
	System   *geminiContent  `json:"systemInstruction"`
	Contents []geminiContent `json:"contents"`
	Tools    []struct {
		Functions []struct {
			Name        string             `json:"name"`
			Description string             `json:"description"`
			Parameters  *jsonschema.Schema `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	ToolConfig struct {
		Calling struct {
			Mode    string   `json:"mode"`
			Allowed []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Config struct {
		MaxTokens   int                `json:"maxOutputTokens"`
		Temperature *float64           `json:"temperature"`
		MIMEType    string             `json:"responseMimeType"`
		Schema      *jsonschema.Schema `json:"responseJsonSchema"`
	} `json:"generationConfig"`
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text      *string         `json:"text"`
	Thought   bool            `json:"thought"`
	Signature string          `json:"thoughtSignature"`
	Call      *geminiCall     `json:"functionCall"`
	Response  *geminiResponse `json:"functionResponse"`
}

type geminiCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type geminiResponse struct {
	ID       string                     `json:"id"`
	Name     string                     `json:"name"`
	Response map[string]json.RawMessage `json:"response"`
}

// Parse implements [Wire]. It is as strict as the service about names and about calls, which the
// next content answers one for one, and stricter about the key: it must not be in the address.
func (Gemini) Parse(r *http.Request, body []byte) (*ParsedRequest, error) {
	name, ok := strings.CutPrefix(r.URL.Path, "/v1beta/models/")
	name, stream := strings.CutSuffix(name, ":streamGenerateContent")
	if r.Method != http.MethodPost || !ok || !stream || name == "" || r.URL.RawQuery != "alt=sse" {
		return nil, fmt.Errorf("unknown endpoint %s %s", r.Method, r.URL)
	}
	var in geminiRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if len(in.Contents) == 0 {
		return nil, errors.New("contents is not specified")
	}
	req := &ParsedRequest{Model: name}
	req.MaxTokens, req.Temperature = in.Config.MaxTokens, in.Config.Temperature
	if in.System != nil {
		for _, p := range in.System.Parts {
			if p.Text != nil {
				req.System += *p.Text
			}
		}
	}
	for _, t := range in.Tools {
		for _, f := range t.Functions {
			req.Tools = append(req.Tools, model.ToolSpec{Name: f.Name, Description: f.Description, Input: f.Parameters})
		}
	}
	switch calling := in.ToolConfig.Calling; {
	case calling.Mode == "ANY" && len(calling.Allowed) > 0:
		req.Choice = calling.Allowed[0]
	case calling.Mode == "ANY":
		req.Choice = "required"
	}
	return req, geminiHistory(&req.Request, in.Contents)
}

func geminiHistory(req *model.Request, contents []geminiContent) error {
	var open []*model.Call // calls without a response
	for i, c := range contents {
		msg := model.Message{Role: model.User}
		if c.Role == "model" {
			msg.Role = model.Assistant
		} else if c.Role != "user" {
			return fmt.Errorf("contents[%d]: please use a valid role: user, model", i)
		}
		if len(c.Parts) == 0 {
			return fmt.Errorf("contents[%d]: parts must not be empty", i)
		}
		answers, expected := 0, len(open)
		for _, p := range c.Parts {
			part, err := p.part(&open)
			if err != nil {
				return fmt.Errorf("contents[%d]: %w", i, err)
			}
			if part.Kind == model.Result {
				msg.Role = model.Tool
				answers++
			}
			msg.Parts = append(msg.Parts, part)
		}
		if answers != expected {
			return fmt.Errorf("contents[%d]: the number of function response parts must equal the number of function call parts of the function call turn, %d",
				i, expected)
		}
		for _, p := range msg.Parts {
			if p.Kind == model.ToolCall {
				open = append(open, p.Call)
			}
		}
		req.Messages = append(req.Messages, msg)
	}
	if len(open) > 0 {
		return fmt.Errorf("%d function calls have no response", len(open))
	}
	return nil
}

// part reads a part. A response closes one of the open calls.
func (p *geminiPart) part(open *[]*model.Call) (out model.Part, err error) {
	if p.Signature != "" {
		out.Opaque = &model.Opaque{Provider: "gemini", Data: geminiJSON(p.Signature)}
	}
	switch {
	case p.Call != nil:
		out.Kind, out.Call = model.ToolCall, &model.Call{ID: p.Call.ID, Name: p.Call.Name, Args: p.Call.Args}
	case p.Response != nil:
		out.Kind = model.Result
		for i, c := range *open {
			if c.Name == p.Response.Name && (c.ID == p.Response.ID || c.ID == "" || p.Response.ID == "") {
				*open = append(append([]*model.Call(nil), (*open)[:i]...), (*open)[i+1:]...)
				out.Call = &model.Call{ID: p.Response.ID, Name: p.Response.Name}
				break
			}
		}
		text, failed := p.Response.Response["output"], false
		if text == nil {
			text, failed = p.Response.Response["error"], true
		}
		if out.Call == nil {
			return out, fmt.Errorf("the response of %q answers no call", p.Response.Name)
		}
		out.Error = failed
		return out, json.Unmarshal(text, &out.Text)
	case p.Text != nil:
		out.Kind, out.Text = model.Text, *p.Text
		if p.Thought {
			out.Kind = model.Reasoning
		}
	default:
		return out, errors.New("a part must have one initialized field: required oneof field 'data'")
	}
	return out, nil
}

// Frames implements [Wire]. Calls are always whole: Fragment means nothing here.
func (Gemini) Frames(_ *ParsedRequest, reply *Reply) [][]byte {
	var frames [][]byte
	stop, used := reply.Stop, ""
	for _, p := range reply.Parts {
		data := ""
		switch p.Kind {
		case model.Text:
			data = `"text":` + string(geminiJSON(p.Text))
		case model.Reasoning:
			data = `"thought":true,"text":` + string(geminiJSON(p.Text))
		case model.ToolCall:
			data = `"functionCall":{"name":` + string(geminiJSON(p.Call.Name)) + `,"args":` + string(p.Call.Args)
			if p.Call.ID != "" {
				data += `,"id":` + string(geminiJSON(p.Call.ID))
			}
			data += "}"
		case model.UsagePart:
			used = fmt.Sprintf(`,"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":%d,`+
				`"cachedContentTokenCount":%d,"totalTokenCount":%d}`,
				p.Usage.In, p.Usage.Out-p.Usage.Reasoning, p.Usage.Reasoning, p.Usage.Cached, p.Usage.In+p.Usage.Out)
		}
		if data == "" {
			continue
		}
		if p.Opaque != nil {
			data += `,"thoughtSignature":` + string(p.Opaque.Data)
		}
		frames = append(frames, geminiFrame(`{"candidates":[{"content":{"parts":[{`+data+`}],"role":"model"},"index":0}],"modelVersion":"test"}`))
	}
	reason := map[model.StopCode]string{model.StopLength: "MAX_TOKENS", model.StopFilter: "SAFETY"}[stop]
	if reason == "" {
		reason = "STOP" // calls too
	}
	return append(frames, geminiFrame(`{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"`+reason+`","index":0}]`+
		used+`,"modelVersion":"test"}`))
}

// ErrorFrame implements [Wire].
func (w Gemini) ErrorFrame(code, message string) []byte {
	return geminiFrame(string(w.ErrorBody(http.StatusInternalServerError, code, message)))
}

// ErrorBody implements [Wire].
func (Gemini) ErrorBody(status int, code, message string) []byte {
	return geminiJSON(map[string]any{"error": map[string]any{"code": status, "message": message, "status": code}})
}

func geminiFrame(s string) []byte { return []byte("data: " + s + "\r\n\r\n") }

// geminiJSON writes v without the escapes for web pages.
func geminiJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // of strings, and of maps of them, never
	}
	return bytes.TrimSpace(b.Bytes())
}
