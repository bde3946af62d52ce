package tui

import tea "charm.land/bubbletea/v2"

// An inboxPane lists the open questions of all runs.
type inboxPane struct{ t *Terminal }

func newInboxPane(t *Terminal) *inboxPane { return &inboxPane{t} }

func (p *inboxPane) title() string                 { return "INBOX" }
func (p *inboxPane) hints() string                 { return "Esc back" }
func (p *inboxPane) draw(w, h int) []string        { return nil }
func (p *inboxPane) key(k tea.KeyPressMsg) tea.Cmd { return nil }

func (t *Terminal) showRuns() tea.Cmd { return nil }

// startPage is what is shown while there is no run.
func (t *Terminal) startPage(w, h int) []string { return nil }

func (t *Terminal) startHeader(w int) []string { return []string{" superstep"} }
