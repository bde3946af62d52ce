package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	redigo "github.com/gomodule/redigo/redis"
)

// A server holds the properties of a server that Open reads. Maps are nil if the server does not
// report them.
type server struct {
	info   map[string]string
	config map[string]string
}

// examine checks the durability settings of the server, refuses insufficient ones, and notes the
// others. It returns the ID of the server process, or "" if unknown.
func (s *store) examine(ctx context.Context, opt *Options) (process string, err error) {
	var v server
	err = s.patiently(ctx, "opening", func() (err error) {
		v, err = askServer(ctx, s.client)
		return err
	})
	if err != nil {
		return "", err
	}
	s.notes, err = v.judge(opt)
	if err != nil {
		return "", fmt.Errorf("store %s: %w", s.name, err)
	}
	return v.info["run_id"], nil
}

func askServer(ctx context.Context, c *client) (v server, err error) {
	// The commands are sent one by one, since the user may be allowed only some of them.
	info, err := redigo.String(c.do(ctx, "INFO"))
	if refused(err) {
		_, err = c.do(ctx, "PING")
		return v, err
	}
	if err != nil {
		return v, err
	}
	v.info = parseInfo(info)
	if v.info["loading"] == "1" || v.info["async_loading"] == "1" {
		return v, errLoading
	}
	config := map[string]string{}
	for _, name := range []string{"appendonly", "appendfsync", "save", "no-appendfsync-on-rewrite", "maxmemory", "maxmemory-policy"} {
		got, err := redigo.StringMap(c.do(ctx, "CONFIG", "GET", name))
		if refused(err) {
			return v, nil
		}
		if err != nil {
			return v, err
		}
		value, known := got[name]
		if !known && (name == "appendonly" || name == "appendfsync" || name == "save") {
			return v, nil
		}
		config[name] = value
	}
	v.config = config
	return v, nil
}

// errLoading is an error of this side, taken for a server that is starting.
var errLoading = errors.New("the server is reading its data")

// refused reports whether the server denied a command to this user.
func refused(err error) bool {
	reply := redigo.Error("")
	if !errors.As(err, &reply) || faultOf(err) != faultOther {
		return false
	}
	return strings.HasPrefix(string(reply), "NOPERM") || strings.HasPrefix(string(reply), "ERR unknown")
}

func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// judge returns what can be lost with the server, or why it cannot be used.
func (v *server) judge(opt *Options) (notes []string, err error) {
	if role := v.info["role"]; role == "slave" || role == "replica" {
		return nil, fmt.Errorf("the server is a replica of %s:%s; a store needs the primary, so use its address", v.info["master_host"], v.info["master_port"])
	}
	if version := v.info["redis_version"]; version != "" && parse(strings.Split(version, ".")[0]) < 7 {
		return nil, fmt.Errorf("the server is Redis %s; a store needs Redis 7 or newer", version)
	}
	note, volatile := v.persistence()
	if volatile != "" {
		if !opt.AllowVolatile {
			return nil, fmt.Errorf("%s, so a restart could lose all runs; set appendonly yes and appendfsync always on the server, or accept that "+
				"with --allow-volatile (Options.AllowVolatile)", volatile)
		}
		notes = append(notes, "VOLATILE: a Redis restart loses all runs ("+volatile+")")
	}
	if note != "" {
		notes = append(notes, note)
	}
	policy := v.config["maxmemory-policy"]
	bounded := v.config["maxmemory"] != "" && v.config["maxmemory"] != "0"
	switch {
	case bounded && strings.HasPrefix(policy, "allkeys-") && !opt.AllowVolatile:
		return nil, fmt.Errorf("the server evicts any keys when its memory is full (maxmemory-policy %s), runs among them; set maxmemory-policy "+
			"noeviction, or accept that with --allow-volatile (Options.AllowVolatile)", policy)
	case bounded && strings.HasPrefix(policy, "allkeys-"):
		notes = append(notes, "VOLATILE: the server evicts runs when its memory is full (maxmemory-policy "+policy+")")
	case bounded && strings.HasPrefix(policy, "volatile-") && opt.TTL > 0:
		notes = append(notes, "runs that have ended may go before their time when the server's memory is full (maxmemory-policy "+policy+")")
	}
	if n := v.info["connected_slaves"]; n != "" && n != "0" {
		notes = append(notes, "the server has replicas, and a failover to one can lose acknowledged steps")
	}
	if v.info["aof_last_write_status"] == "err" || v.info["rdb_last_bgsave_status"] == "err" {
		notes = append(notes, "the server could not write its disk lately; see its log")
	}
	if v.info["cluster_enabled"] == "1" {
		notes = append(notes, "the server is a node of a cluster: all runs of a store are in one slot, and the store does not follow if that moves")
	}
	return notes, nil
}

// persistence returns what a crash of the server can lose, and what makes it volatile, if anything.
func (v *server) persistence() (note, volatile string) {
	if v.config == nil || v.info == nil {
		return "", "the server does not tell how it keeps its data"
	}
	if v.config["appendonly"] == "yes" {
		switch v.config["appendfsync"] {
		case "always":
			if v.config["no-appendfsync-on-rewrite"] == "yes" {
				return "a crash of the server's machine while it rewrites its file may lose 30 s of acknowledged steps (no-appendfsync-on-rewrite yes)", ""
			}
			return "", ""
		case "everysec":
			return "a crash of the server may lose 1 s of acknowledged steps (appendfsync everysec)", ""
		}
		return "a crash of the server's machine may lose what the system had not written yet, 30 s or more of acknowledged steps (appendfsync " +
			v.config["appendfsync"] + ")", ""
	}
	if v.config["save"] == "" {
		return "", "the server keeps nothing on disk (appendonly no, save \"\")"
	}
	return "a crash of the server loses all acknowledged steps since its last snapshot (appendonly no, save " + v.config["save"] + ")", ""
}
