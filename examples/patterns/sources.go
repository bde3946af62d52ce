package main

import (
	"context"
	"strings"

	"github.com/superstep-dev/superstep/tool"
)

// sources returns the tools "notes" and "web", which stand for a search of yours.
func sources() (*tool.Set, error) {
	notes, err := search("notes", "Search the notes of the shop.",
		"A lamp costs 12 euros. Ten lamps cost 100 euros.", "The shop is closed on Sundays.")
	if err != nil {
		return nil, err
	}
	web, err := search("web", "Search the web.",
		"A lamp that flickers needs a new bulb.", "Lamps are as old as fire.")
	if err != nil {
		return nil, err
	}
	return tool.NewSet(notes, web)
}

// search returns a tool that finds the texts with a word of a query, one on a line.
func search(name, description string, texts ...string) (*tool.Tool, error) {
	type query struct {
		Query string `json:"query"`
	}
	return tool.New(name, description, func(_ context.Context, q query) (string, error) {
		var found []string
		for _, text := range texts {
			for word := range strings.FieldsSeq(strings.ToLower(q.Query)) {
				if len(word) > 3 && strings.Contains(strings.ToLower(text), strings.Trim(word, "?.,")) {
					found = append(found, text)
					break
				}
			}
		}
		if found == nil {
			return "Nothing has a word of that.", nil
		}
		return strings.Join(found, "\n"), nil
	}, &tool.Options{Effect: tool.Pure})
}
