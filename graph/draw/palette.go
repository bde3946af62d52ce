package draw

import (
	"cmp"
	"slices"
)

// colours are the colours of a node on one background.
type colours struct{ fill, stroke, text string }

// class is the look of a kind of node. A state is never shown by colour alone: the node also has a
// glyph and a word.
type class struct {
	name        string
	light, dark colours
	width       int // of the outline
	dash        bool
}

// kinds is the number of palette classes for kinds of nodes; the others are for states.
const kinds = 2

// palette has a contrast of 4.5 and more between each text and its fill.
var palette = []class{
	{"terminal", colours{"#eaeef2", "#6e7781", "#1f2328"}, colours{"#30363d", "#8b949e", "#f0f6fc"}, 1, false},
	{"node", colours{"#f6f8fa", "#57606a", "#1f2328"}, colours{"#1c2128", "#8b949e", "#f0f6fc"}, 1, false},
	{"pending", colours{"#f6f8fa", "#6e7781", "#424a53"}, colours{"#1c2128", "#8b949e", "#c9d1d9"}, 1, true},
	{"running", colours{"#ddf4ff", "#0969da", "#0a3069"}, colours{"#0c2d6b", "#58a6ff", "#f0f6fc"}, 3, false},
	{"waiting", colours{"#fff8c5", "#9a6700", "#3b2300"}, colours{"#4b2900", "#d29922", "#fff8c5"}, 3, true},
	{"done", colours{"#dafbe1", "#1a7f37", "#0a3d1c"}, colours{"#0f3d1f", "#3fb950", "#dafbe1"}, 1, false},
	{"skipped", colours{"#fbefff", "#8250df", "#3e1f79"}, colours{"#3c1e70", "#a371f7", "#fbefff"}, 1, true},
	{"caught", colours{"#fff1e5", "#bc4c00", "#471700"}, colours{"#5a1e02", "#db6d28", "#ffebda"}, 1, true},
	{"partly", colours{"#fff8c5", "#bc4c00", "#3b2300"}, colours{"#4b2900", "#db6d28", "#fff8c5"}, 2, false},
	{"failed", colours{"#ffebe9", "#cf222e", "#660018"}, colours{"#5d0f12", "#f85149", "#ffebe9"}, 3, false},
}

// canvas holds the colours behind and between the nodes.
type canvas struct{ back, text, line, fail string }

var (
	lightCanvas = canvas{"#ffffff", "#1f2328", "#57606a", "#cf222e"}
	darkCanvas  = canvas{"#0d1117", "#f0f6fc", "#9198a1", "#ff7b72"}
)

func (n *node) look() class {
	name := "node"
	switch {
	case n.form == terminal:
		name = "terminal"
	case n.status != "":
		name = cmp.Or(n.state, "pending")
	}
	if i := slices.IndexFunc(palette, func(c class) bool { return c.name == name }); i >= 0 {
		return palette[i]
	}
	return palette[1] // of a state that is not known
}

func (n *node) class() string { return n.look().name }
