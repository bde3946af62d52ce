package script

import (
	"embed"
)

//go:embed js/*.mjs js/plugin.d.ts
var sources embed.FS

const bundleName = "superstep-bundle.mjs"

// modules are the files that stand beside a bundle, by name.
func modules() map[string][]byte {
	out := map[string][]byte{}
	for _, name := range []string{"plugin", "zod", "schemas", "runtime", "module", "process"} {
		out["superstep-"+name+".mjs"] = source(name + ".mjs")
	}
	return out
}

func source(name string) []byte {
	b, err := sources.ReadFile("js/" + name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return b
}

// PluginTypes is the text of a file plugin.d.ts that tells editors what "@superstep/plugin" is.
// Put it beside the tools; it is not needed to run them.
func PluginTypes() string { return string(source("plugin.d.ts")) }
