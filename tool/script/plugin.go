package script

import (
	"embed"
)

//go:embed js/*.mjs
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
