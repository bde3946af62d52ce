package redis

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// greet looks at the server at the other end of a new connection before anything is sent on it.
// If it is not the process that the store knew, it was started anew or took over from another
// one, and may have lost what others have written over since. A server that does not tell who it
// is cannot be checked for that.
func (s *Store) greet(ctx context.Context, c *goredis.Conn) error {
	if s.id == "" { // Open is not done
		return nil
	}
	text, err := c.Info(ctx, "server").Result()
	if refused(err) {
		return nil
	}
	if err == nil {
		err = s.enterEra(ctx, c, parseInfo(text)["run_id"], s.known.Load())
	}
	if err != nil {
		return &dialError{err}
	}
	return nil
}

// enterEra compares what was known when another server was there with how far the store had
// come when this one began.
func (s *Store) enterEra(ctx context.Context, c goredis.Scripter, server string, known uint64) error {
	if was := s.server.Load(); server == "" || was != nil && *was == server {
		return nil
	}
	r, err := s.scripts.era.Run(ctx, c, []string{s.keys.store}, s.id, known, server).Slice()
	if err != nil {
		return err
	}
	if text(r, 0) != "ok" {
		return s.forget(r)
	}
	s.server.Store(&server)
	return nil
}
