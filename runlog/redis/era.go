package redis

import (
	"context"

	redigo "github.com/gomodule/redigo/redis"
)

// greet checks the server of a new connection before anything is sent. If it is not the process
// that the store knew, it was restarted or has replaced another server, and may have lost records
// that were overwritten since. A server that does not report its identity cannot be checked.
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

// enterEra compares the last known state of the store with its state when the new server process
// began.
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
