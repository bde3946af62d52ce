package tui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/superstep-dev/superstep/internal/transcript"
)

// An agentPane shows one agent in full.
type agentPane struct {
	t    *Terminal
	f    *following
	path string
}

func newAgentPane(t *Terminal, f *following, path string) *agentPane { return &agentPane{t, f, path} }

func (p *agentPane) title() string                 { return p.path }
func (p *agentPane) hints() string                 { return "Esc back" }
func (p *agentPane) draw(w, h int) []string        { return nil }
func (p *agentPane) key(k tea.KeyPressMsg) tea.Cmd { return nil }

func (t *Terminal) stopAgentAt(task *transcript.Task) tea.Cmd { return nil }
