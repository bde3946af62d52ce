package tui

import tea "charm.land/bubbletea/v2"

func (t *Terminal) showHistory() tea.Cmd { return nil }
func (t *Terminal) showGraph() tea.Cmd   { return nil }

// storedOnly is in live.
