package console

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// chatTab is the page of a run as a conversation: the same run with its messages and what the agent says.
const chatTab = "chat"

// chats reports whether a run is a conversation.
func chats(r *transcript.Run) bool { return talks(r.Workflow, r.Inputs) }

// talks reports whether a run with these inputs is a conversation.
func talks(workflow string, inputs json.RawMessage) bool {
	var in struct{ Chat bool }
	return workflow == "agent" && json.Unmarshal(inputs, &in) == nil && in.Chat
}

// awaits returns the open question of a run for the next message of its conversation, nil if there is none.
func (s *server) awaits(ctx context.Context, id string) (*transcript.Question, error) {
	h, err := s.hub(ctx, id)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, q := range h.run.Open() {
		if q.Kind == runlog.QuestionMessage {
			return q, nil
		}
	}
	return nil, nil //nolint:nilnil // no question is no error
}

// conversation draws the messages of a conversation and their answers.
func (p *runPage) conversation() list {
	l := list{id: "parts"}
	for _, t := range p.sorted() {
		if t.Depth > 0 || transcript.Top(t.Path) == "next" {
			continue
		}
		for _, a := range t.Agents[:min(1, len(t.Agents))] {
			id := short("said-", t.Path)
			l.pieces = append(l.pieces, piece{id, 1, func() string { return p.s.html("said", map[string]any{"ID": id, "Text": a.Prompt}) }})
		}
		for i := range t.Parts {
			x := &t.Parts[i]
			id := short("part-", t.Path, x.ID)
			l.pieces = append(l.pieces, piece{id, x.Rev + 1, func() string { return p.part(id, x) }})
		}
		if text := t.LiveTail(liveTail); text != "" {
			l.pieces = append(l.pieces, piece{"part-live", 0, func() string { return p.s.html("part-live", map[string]any{"Text": text}) }})
		}
	}
	if n := len(l.pieces) - partsPage; n > 0 {
		l.pieces = l.pieces[n:]
	}
	return l
}

// chatsHandler answers GET /chats: the conversations, and a place to begin one.
func (s *server) chatsHandler(w http.ResponseWriter, r *http.Request) error {
	infos, err := s.engine.Runs(r.Context(), nil)
	if err != nil {
		return err
	}
	infos = slices.DeleteFunc(infos, func(i runlog.Info) bool { return i.Workflow != "agent" })
	var rows []map[string]any
	for _, i := range infos[:min(len(infos), runsPerPage)] {
		sum := summary.Of(&i)
		row := map[string]any{"ID": i.ID, "Title": transcript.Line(i.Title), "Created": i.Created, "State": string(i.Status)}
		if sum != nil && sum.Waits == summary.Message {
			row["State"] = "your turn"
		}
		rows = append(rows, row)
	}
	_, none := s.host.Find("agent")
	s.page(w, r, http.StatusOK, "chats", map[string]any{"Title": "Chats", "Rows": rows, "Acts": s.acts(r) && none == nil, "Program": s.opt.Program,
		"Offline": !s.host.HasModel(r.Context()), "Agent": strings.TrimSpace(r.URL.Query().Get("agent"))})
	return nil
}
