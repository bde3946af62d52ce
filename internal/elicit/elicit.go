// Package elicit puts questions to the user of an MCP client, as the client's version of the protocol does it: by a request of the server, or by a result
// that tells the client to ask and to call again.
package elicit

import (
	"context"
	"crypto/rand"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Agent is the header of requests of clients that are agents: no user is behind them.
const Agent = "Superstep-Agent"

// most is how many questions may be with clients at once.
const most = 256

const key = "question" // of the one question in a result

// byResult is the first version of the protocol in which a server sends no requests.
const byResult = "2026-07-28"

// An Asker puts questions to users. The zero value is ready.
type Asker struct {
	mu   sync.Mutex
	sent map[string]string // what each question is about, by the state that comes back with its answer
}

// Can reports whether the client that makes a call can ask its user.
func Can(req *sdk.CallToolRequest) bool {
	p := req.Session.InitializeParams()
	if p == nil || p.Capabilities == nil {
		return false
	}
	e := p.Capabilities.Elicitation
	return e != nil && (e.Form != nil || e.URL == nil)
}

// About returns what the question is about that a call brings the answer to, and whether this call brings one. If it is "" then, the question is not known.
func (a *Asker) About(req *sdk.CallToolRequest) (about string, answers bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent[req.Params.RequestState], req.Params.RequestState != ""
}

// Ask asks the user of the client that makes a call, and returns the answer; or a result for the client, which asks, and makes the same call again. About
// identifies the question with everything that the user decides on: the answer to another one does not count. Each answer counts once.
func (a *Asker) Ask(ctx context.Context, req *sdk.CallToolRequest, about string, p *sdk.ElicitParams) (*sdk.ElicitResult, *sdk.CallToolResult, error) {
	if p.RequestedSchema == nil {
		p.RequestedSchema = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	p.Mode = "form"
	if req.Session.InitializeParams().ProtocolVersion < byResult {
		answer, err := req.Session.Elicit(ctx, p)
		return answer, nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	state := req.Params.RequestState
	known := state != "" && a.sent[state] == about
	delete(a.sent, state)
	if answer, ok := req.Params.InputResponses[key].(*sdk.ElicitResult); ok && known {
		return answer, nil, nil
	}
	for old := range a.sent {
		if len(a.sent) < most {
			break
		}
		delete(a.sent, old) // its client asks again
	}
	if a.sent == nil {
		a.sent = map[string]string{}
	}
	state = rand.Text()
	a.sent[state] = about
	return nil, &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{key: p}, RequestState: state}, nil
}
