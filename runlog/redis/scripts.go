package redis

import (
	"embed"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed scripts/*.lua
var sources embed.FS

type scripts struct {
	open, era, list, write *goredis.Script
	// reserve is write for small batches when the server has reached its maxmemory.
	reserve *goredis.Script
}

func loadScripts() (s scripts, err error) {
	source := func(name string) string {
		b, readErr := sources.ReadFile("scripts/" + name + ".lua")
		if readErr != nil {
			err = readErr
		}
		return string(b)
	}
	const reserve = "#!lua flags=allow-oom\n"
	common := source("common")
	s.open = goredis.NewScript(source("open"))
	s.era = goredis.NewScript(reserve + source("era"))
	s.list = goredis.NewScript(common + source("list"))
	s.write = goredis.NewScript(common + source("write"))
	s.reserve = goredis.NewScript(reserve + common + source("write"))
	return s, err
}
