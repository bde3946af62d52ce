package main

import (
	"path/filepath"
	"testing"
)

// The code has moved on if this fails: give the mutant the text that is there now.
func TestMutantsFit(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants() {
		if _, err := m.apply(filepath.Join("..", "..", "..")); err != nil {
			t.Error(err)
		}
		if m.old == m.new || len(m.tests) == 0 || names[m.name] {
			t.Errorf("%s: it changes nothing, has no test, or is there twice", m.name)
		}
		names[m.name] = true
	}
	if len(names) < 25 {
		t.Errorf("there are only %d mutants", len(names))
	}
}
