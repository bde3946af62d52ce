package redis

import (
	"embed"

	redigo "github.com/gomodule/redigo/redis"
)

//go:embed scripts/*.lua
var sources embed.FS

type scripts struct {
	open, era, list, write *redigo.Script
	// reserve is write for small batches when the server has reached its maxmemory.
	reserve *redigo.Script
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
	s.open = redigo.NewScript(-1, source("open"))
	s.era = redigo.NewScript(-1, reserve+source("era"))
	s.list = redigo.NewScript(-1, common+source("list"))
	s.write = redigo.NewScript(-1, common+source("write"))
	s.reserve = redigo.NewScript(-1, reserve+common+source("write"))
	return s, err
}
