package console

import (
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
func chats(r *transcript.Run) bool {
	var inputs struct{ Chat bool }
	return r.Workflow == "agent" && json.Unmarshal(r.Inputs, &inputs) == nil && inputs.Chat
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
