// Package console shows the runs of a host in a web browser, and lets people act on them. Its pages are drawn on the server from the same fold of the log
// as every other view; a page that is open receives what has changed.
package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
)

// Options are the settings of a Handler.
type Options struct {
	Hosts    []string // the values of the header Host that are answered, such as 127.0.0.1:7676; required
	Operator string   // the token of users who may do everything; defaults to a random one
	Viewer   string   // the token of users who may only look, "" for none
	ReadOnly bool     // nobody may do more than look
	Secure   bool     // it is reached over TLS only
	Program  string   // the name of the command line, for the commands that pages show; defaults to superstep
	// Start starts, resumes or continues a run in a process of its own, and returns its ID. If nil, runs execute in this process until ctx ends.
	Start func(ctx context.Context, s *Start) (run string, err error)
	Now   func() time.Time // defaults to time.Now
	// Default returns the default of a setting, for the page of settings. If nil, defaults are not shown.
	Default func(setting string) string
}

// A Start names what to execute: a new run of a workflow, or a run to resume or to continue.
type Start struct {
	Workflow string          // of a new run
	ID       string          // of a new run, "" for any: what is started twice with an ID is one run
	Inputs   json.RawMessage // of a new run: an object
	Run      string          // to resume, or to continue with Message
	Message  string          // the next message of the conversation of Run
	Model    string          // of a new run, "" for the one that is configured
	Trace    string          // of a new run, see superstep.StartOptions
}

//go:embed pages static
var files embed.FS

// server is the console of one host.
type server struct {
	ctx    context.Context // ends its streams, and the runs that it executes
	host   *host.Host
	opt    Options
	engine *superstep.Engine
	pages  *template.Template
	mux    *http.ServeMux
	routes []route
	guard  guard
	epoch  string // of this process: positions of its streams mean nothing to another one

	mu    sync.Mutex
	hubs  map[string]*hub
	views map[string]*view
	done  map[string]*reply // what was answered to actions, by their keys
	order []string          // the keys of done, the oldest first

	streams atomic.Int32 // that are open

	gap    time.Duration   // between two frames
	folds  kept[*moment]   // runs as of earlier records
	shapes kept[*svgShape] // graphs, by run
}

// Handler returns the pages and the interface for programs of a host. They answer nobody who does not have a token: the address of a page with the
// parameter t sets a cookie, and programs send the header Authorization. It must be mounted at the root of its address. Ctx ends what it follows.
func Handler(ctx context.Context, h *host.Host, opt *Options) (http.Handler, error) {
	s := &server{ctx: ctx, host: h, opt: *opt, mux: http.NewServeMux(), hubs: map[string]*hub{}, views: map[string]*view{}, done: map[string]*reply{},
		gap: frameGap, folds: kept[*moment]{most: 16}, shapes: kept[*svgShape]{most: 100}}
	if len(s.opt.Hosts) == 0 {
		return nil, errors.New("console: no value of the header Host is allowed, so nothing would be answered")
	}
	s.opt.Operator, s.opt.Program = cmp.Or(s.opt.Operator, Token()), cmp.Or(s.opt.Program, "superstep")
	if s.opt.Viewer == s.opt.Operator {
		return nil, errors.New("console: the tokens of viewers and operators are equal")
	}
	if s.opt.Now == nil {
		s.opt.Now = time.Now
	}
	if s.opt.Default == nil {
		s.opt.Default = func(string) string { return "" }
	}
	s.epoch = Token()[:8]
	s.guard = newGuard(&s.opt)
	var err error
	if s.engine, err = h.Engine(ctx, nil); err != nil {
		return nil, err
	}
	if s.pages, err = templates(s); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, s.engine.Close)
	s.register()
	return s, nil
}

// kept holds what was computed for the last keys. Its methods may be called from several goroutines.
type kept[V any] struct {
	most int
	mu   sync.Mutex
	keys []string // the one that was wanted longest ago first
	vals map[string]V
}

// of returns the value of a key, computed if it is not held. What fails is not held.
func (k *kept[V]) of(key string, compute func() (V, error)) (V, error) {
	k.mu.Lock()
	v, ok := k.vals[key]
	k.mu.Unlock()
	if !ok {
		var err error
		if v, err = compute(); err != nil {
			return v, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.vals == nil {
		k.vals = map[string]V{}
	}
	k.keys, k.vals[key] = append(slices.DeleteFunc(k.keys, func(x string) bool { return x == key }), key), v
	if len(k.keys) > k.most {
		delete(k.vals, k.keys[0])
		k.keys = slices.Delete(k.keys, 0, 1)
	}
	return v, nil
}

// Token returns a random token of 256 bits.
func Token() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// short returns an identifier for HTML of what may be any text.
func short(prefix string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return prefix + hex.EncodeToString(h.Sum(nil)[:8])
}
