package tui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/superstep-dev/superstep/internal/transcript"
)

// A cardView is the question on the screen.
type cardView struct {
	t *Terminal
	q *transcript.Question
}

func (t *Terminal) nextCard()     {}
func (t *Terminal) ring() tea.Cmd { return nil }

func (c *cardView) draw(w, h int) []string        { return nil }
func (c *cardView) key(k tea.KeyPressMsg) tea.Cmd { return nil }
func (c *cardView) takes(k tea.KeyPressMsg) bool  { return false }
func (c *cardView) paste(s string)                {}
func (c *cardView) hints() string                 { return "" }
