package redis

import (
	"context"

	redigo "github.com/gomodule/redigo/redis"
)

// greet looks at the server at the other end of a new connection before anything is sent on it.
// If it is not the process that the store knew, it was started anew or took over from another
// one, and may have lost what others have written over since. A server that does not tell who it
// is cannot be checked for that.
func (s *store) greet(ctx context.Context, conn redigo.Conn) error {
	if s.id == "" { // Open is not done
		return nil
	}
	text, err := redigo.String(redigo.DoContext(conn, ctx, "INFO", "server"))
	if refused(err) {
		return nil
	}
	if err == nil {
		err = s.enterEra(ctx, conn, parseInfo(text)["run_id"], s.known.Load())
	}
	return err
}

// enterEra compares what was known when another server was there with how far the store had
// come when this one began.
func (s *store) enterEra(ctx context.Context, conn redigo.Conn, server string, known uint64) error {
	if was := s.server.Load(); server == "" || was != nil && *was == server {
		return nil
	}
	r, err := redigo.Values(run(ctx, conn, s.scripts.era, []string{s.keys.store}, s.id, known, server))
	if err != nil {
		return err
	}
	if text(r, 0) != "ok" {
		return s.forget(r)
	}
	s.server.Store(&server)
	return nil
}
