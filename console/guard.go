package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/runlog"
)

// access says who may use a route. The zero value is nobody.
type access int

const (
	nobody    access = iota
	public           // whoever can reach the address
	viewing          // viewers and operators
	operating        // operators
)

// maxBody is the most bytes of a request.
const maxBody = 1 << 20

// A route is one entry of the console.
type route struct {
	pattern string
	access  access
}

// sentAs checks that the body of a request is of a kind: what is sent as another one is not read as this.
func sentAs(r *http.Request, kind string) error {
	given := r.Header.Get("Content-Type")
	if got, _, err := mime.ParseMediaType(given); r.ContentLength != 0 && (err != nil || got != kind) {
		return refuse(http.StatusUnsupportedMediaType, "The content type is %q, want %s.", given, kind)
	}
	return nil
}

// formed reads the form of a request.
func formed(r *http.Request) error {
	if err := sentAs(r, "application/x-www-form-urlencoded"); err != nil {
		return err
	}
	err := r.ParseForm()
	if err != nil && !errors.As(err, new(*http.MaxBytesError)) {
		err = refuse(http.StatusBadRequest, "The form cannot be read: %v.", err)
	}
	return err
}

type handler func(w http.ResponseWriter, r *http.Request) error

// route registers a handler. There is no other way to register one, so each route has its access.
func (s *server) route(pattern string, a access, f handler) {
	if a == operating && s.opt.ReadOnly {
		return
	}
	s.routes = append(s.routes, route{pattern, a})
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := s.allow(a, r); err != nil {
			s.fail(w, r, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if err := f(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// guard recognizes users.
type guard struct {
	cookie  string // its name, which other consoles of this machine do not have
	tokens  map[access][sha256.Size]byte
	cookies map[access]string
	cross   *http.CrossOriginProtection
}

func newGuard(opt *Options) guard {
	g := guard{tokens: map[access][sha256.Size]byte{}, cookies: map[access]string{}, cross: http.NewCrossOriginProtection()}
	key := []byte(Token())
	for a, token := range map[access]string{viewing: opt.Viewer, operating: opt.Operator} {
		if token == "" {
			continue
		}
		g.tokens[a] = sha256.Sum256([]byte(token))
		m := hmac.New(sha256.New, key)
		fmt.Fprint(m, int(a))
		g.cookies[a] = hex.EncodeToString(m.Sum(nil))
	}
	g.cookie = short("superstep-", opt.Operator)
	return g
}

// byToken returns what the holder of a token may do.
func (g *guard) byToken(token string) access {
	sum := sha256.Sum256([]byte(token))
	for _, a := range []access{operating, viewing} {
		if want, ok := g.tokens[a]; ok && hmac.Equal(want[:], sum[:]) {
			return a
		}
	}
	return public
}

// of returns what the sender of a request may do.
func (g *guard) of(r *http.Request) access {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return g.byToken(token)
	}
	c, err := r.Cookie(g.cookie)
	if err != nil {
		return public
	}
	for _, a := range []access{operating, viewing} {
		if want, ok := g.cookies[a]; ok && hmac.Equal([]byte(want), []byte(c.Value)) {
			return a
		}
	}
	return public
}

// refusal is an error with a status of HTTP.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

func (s *server) allow(a access, r *http.Request) error {
	switch has := s.guard.of(r); {
	case a == nobody:
		return refuse(http.StatusForbidden, "this is not served")
	case has < a && has == public:
		return refuse(http.StatusUnauthorized, "Open the address that `%s console` printed: it has the token in it.", s.opt.Program)
	case has < a:
		return refuse(http.StatusForbidden, "You may look, and not act. The address for operators has another token.")
	}
	return nil
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types superstep"

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // without any, browsers send forms with the Origin null
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !slices.Contains(s.opt.Hosts, r.Host) {
		s.fail(w, r, refuse(http.StatusForbidden, "This console does not answer to the address %q.", r.Host))
		return
	}
	if err := s.guard.cross.Check(r); err != nil {
		s.fail(w, r, refuse(http.StatusForbidden, "Another page sent this, so it was refused: %v.", err))
		return
	}
	if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		s.fail(w, r, refuse(http.StatusForbidden, "Another page asked for this, so it was refused."))
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && !s.own(origin) {
		s.fail(w, r, refuse(http.StatusForbidden, "A page of %q asked for this, so it was refused.", origin))
		return
	}
	if token := r.URL.Query().Get("t"); token != "" && r.Method == http.MethodGet {
		s.enter(w, r, token)
		return
	}
	if _, pattern := s.mux.Handler(r); pattern == "" {
		if err := s.allow(viewing, r); err != nil {
			s.fail(w, r, err)
			return
		}
		s.fail(w, r, refuse(http.StatusNotFound, "There is no page %s.", r.URL.Path))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// own reports whether an origin is an address of this console.
func (s *server) own(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && slices.Contains(s.opt.Hosts, u.Host) && (u.Scheme == "https") == s.opt.Secure
}

// enter exchanges the token of an address for a cookie, and leads to the address without it.
func (s *server) enter(w http.ResponseWriter, r *http.Request, token string) {
	a := s.guard.byToken(token)
	if a == public {
		s.fail(w, r, refuse(http.StatusUnauthorized, "The token of this address is not the one that `%s console` printed last.", s.opt.Program))
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: s.guard.cookie, Value: s.guard.cookies[a], Path: "/", HttpOnly: true, Secure: s.opt.Secure, SameSite: http.SameSiteStrictMode,
	})
	q := r.URL.Query()
	q.Del("t")
	to := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/\\"), RawQuery: q.Encode()} // never another host
	// A page and no redirect: a browser that comes from elsewhere, such as a link in another page, would not send the cookie along a redirect.
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Referrer-Policy", "no-referrer") // the address has the token
	fmt.Fprintf(w, `<!doctype html><title>Superstep</title><meta http-equiv="refresh" content="0; url=%s"><a href="%[1]s">Open the console</a>`,
		template.HTMLEscapeString(to.String()))
}

// fail answers a request with an error: a page for people, and a problem document for programs.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var status int
	text := err.Error()
	var no *refusal
	var wrong *host.Error
	switch {
	case r.Context().Err() != nil:
		return // nobody reads it
	case errors.As(err, &no):
		status = no.status
	case errors.As(err, new(*runlog.NotFoundError)):
		status = http.StatusNotFound
	case errors.As(err, new(*http.MaxBytesError)):
		status, text = http.StatusRequestEntityTooLarge, "The request is larger than 1 MiB."
	case errors.As(err, &wrong):
		status = http.StatusUnprocessableEntity
		text = strings.Join(append([]string{wrong.Message}, wrong.Next...), "\n")
	default:
		status = statusOf(err)
	}
	text = s.clean(text)
	if programs(r) {
		problem(w, status, text)
		return
	}
	if r.Header.Get("Superstep-Fragment") != "" { // a form, which shows it where it was sent
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		fmt.Fprintln(w, text)
		return
	}
	s.page(w, r, status, "error", &errorPage{Status: status, Title: http.StatusText(status), Text: text})
}

type errorPage struct {
	Status      int
	Title, Text string
}
