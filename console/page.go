package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/internal/detach"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// templates reads the pages.
func templates(s *server) (*template.Template, error) {
	return template.New("").Funcs(s.functions()).ParseFS(files, "pages/*.html")
}

// functions are those of the templates. What they return is text unless its type says that it is HTML.
func (s *server) functions() template.FuncMap {
	return template.FuncMap{
		"glyph": glyph, "ago": func(t time.Time) string { return inwords.Ago(s.opt.Now().Sub(t)) },
		"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"count": inwords.Count, "line": transcript.Line, "text": transcript.Clean, "pretty": pretty,
		"value":  func(raw json.RawMessage) string { return transcript.Clean(transcript.Value(raw)) },
		"plural": inwords.Plural, "kind": func(f question.Field) string { return f.Words() },
		"join": strings.Join, "asset": asset, "lines": diffLines,
		"numbered": numbered,
	}
}

// glyph is the sign of a state, which is always beside its word.
func glyph(state string) string {
	switch state {
	case "running":
		return "●"
	case "done", "completed", "ok", "usable", "trusted":
		return "✓"
	case "failed", "damaged", "quarantined":
		return "✗"
	case "needs you", "waiting":
		return "?"
	case "retrying", "rate limit", "warning", "partial", "degraded":
		return "!"
	case "skipped", "cancelled", "stopped":
		return "–"
	case "paused", "interrupted", "waiting_storage":
		return "‖"
	}
	return "◌"
}

// asset returns the address of a file, which is another one once the file is.
func asset(name string) string {
	b, err := files.ReadFile("static/" + name)
	if err != nil {
		b = graphStyle()
	}
	return "/static/" + name + "?" + short("v", string(b))
}

// clocked is a time that may still grow, which the browser then counts.
type clocked struct {
	Text  string
	Since string // RFC 3339, "" while it does not grow
}

// clock returns how long something took, as of the page: what is past does not grow.
func (p *runPage) clock(s transcript.Span) clocked {
	elapsed := s.Elapsed(p.now)
	c := clocked{Text: inwords.Brief(elapsed)}
	if p.at == 0 && s.Elapsed(p.now.Add(time.Hour)) != elapsed {
		c.Since, c.Text = p.now.Add(-elapsed).UTC().Format(time.RFC3339Nano), inwords.Duration(elapsed)
	}
	return c
}

// pretty returns JSON with indentation, and what is no JSON as it is.
func pretty(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 {
		return ""
	}
	if json.Indent(&b, raw, "", "  ") != nil {
		return transcript.Clean(string(raw))
	}
	return transcript.Clean(b.String())
}

// valued returns the output of a run: a text as Markdown, and other values as JSON.
func (s *server) valued(raw json.RawMessage) template.HTML {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return markdown(text)
	}
	var brief struct{ Text, Brief, Answer string }
	if json.Unmarshal(raw, &brief) == nil {
		for _, text := range []string{brief.Text, brief.Brief, brief.Answer} {
			if text != "" {
				return markdown(text)
			}
		}
	}
	if len(raw) == 0 {
		return ""
	}
	return template.HTML("<pre>" + template.HTMLEscapeString(pretty(raw)) + "</pre>")
}

// noImages turns images into links: a page asks no other computer for anything.
type noImages struct{}

// Transform implements parser.ASTTransformer.
func (noImages) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	var images []*ast.Image
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if i, ok := n.(*ast.Image); ok && entering {
			images = append(images, i)
		}
		return ast.WalkContinue, nil
	})
	for _, i := range images {
		l := ast.NewLink()
		l.Destination, l.Title = i.Destination, i.Title
		for c := i.FirstChild(); c != nil; {
			next := c.NextSibling()
			l.AppendChild(l, c)
			c = next
		}
		i.Parent().ReplaceChild(i.Parent(), i, l)
	}
}

// asText writes HTML, and what looks like it, as the text that it is: Promise<void>, or a page that a model answers with.
type asText struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (asText) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	write := func(w util.BufWriter, source []byte, parts *text.Segments) {
		for i := range parts.Len() {
			part := parts.At(i)
			template.HTMLEscape(w, part.Value(source))
		}
	}
	reg.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if raw, ok := n.(*ast.RawHTML); ok && entering {
			write(w, source, raw.Segments)
		}
		return ast.WalkSkipChildren, nil
	})
	reg.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch b, ok := n.(*ast.HTMLBlock); {
		case !ok:
		case entering:
			_, _ = w.WriteString("<pre>") // to memory
			write(w, source, b.Lines())
		default:
			if b.HasClosure() {
				template.HTMLEscape(w, b.ClosureLine.Value(source))
			}
			_, _ = w.WriteString("</pre>\n")
		}
		return ast.WalkContinue, nil
	})
}

// markdown returns the HTML of a text of a model: no HTML of its own, no images, and no scripts in links.
func markdown(s string) template.HTML {
	md := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough), goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(noImages{}, 100))),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(asText{}, 100))))
	var b bytes.Buffer
	if err := md.Convert([]byte(transcript.Clean(s)), &b); err != nil {
		return template.HTML("<pre>" + template.HTMLEscapeString(transcript.Clean(s)) + "</pre>")
	}
	return template.HTML(b.String()) //nolint:gosec // goldmark escapes what is text, and leaves out HTML and dangerous addresses
}

// page answers with a page.
func (s *server) page(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	var body bytes.Buffer
	if err := s.pages.ExecuteTemplate(&body, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	title, stream, since := "", "", ""
	if m, ok := data.(map[string]any); ok {
		title, _ = m["Title"].(string)
		stream, _ = m["Stream"].(string)
		since, _ = m["Since"].(string)
	}
	known := s.guard.of(r) != public
	var out bytes.Buffer
	err := s.pages.ExecuteTemplate(&out, "layout", map[string]any{"Body": template.HTML(body.String()), //nolint:gosec // made by a template
		"Title": title, "Stream": stream, "Since": since, "Known": known, "Section": strings.Split(r.URL.Path, "/")[1], "ReadOnly": known && s.guard.of(r) != operating,
		"Folder": s.folder(known)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.write(w, r, status, "text/html; charset=utf-8", out.Bytes())
}

// write answers with a text, compressed if the browser takes that.
func (s *server) write(w http.ResponseWriter, r *http.Request, status int, kind string, text []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Vary", "Accept-Encoding")
	if len(text) > 1<<10 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(text) // to memory
		_ = z.Close()
		w.Header().Set("Content-Encoding", "gzip")
		text = b.Bytes()
	}
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

func (s *server) folder(known bool) string {
	if !known {
		return ""
	}
	return transcript.Line(s.host.Dir())
}

// clean returns a text without control characters and secrets.
func (s *server) clean(text string) string {
	return transcript.Clean(s.host.Redactor().Text(text))
}

// programs reports whether a request is one of a program, and not of a page.
func programs(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }

// problem answers with a problem document, see RFC 9457.
func problem(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": text})
}

// statusOf returns the status of HTTP for an error of the engine: that of the store or the machine if it is theirs, or else that of a request which cannot
// be carried out as things are.
func statusOf(err error) int {
	var net net.Error
	switch {
	case errors.As(err, new(*superstep.AmbiguousError)):
		return http.StatusNotFound
	case errors.As(err, new(*superstep.PointError)), errors.As(err, new(*graph.InsideError)), errors.As(err, new(*detach.EndedError)):
		return http.StatusUnprocessableEntity
	case errors.As(err, new(*runlog.StorageError)), errors.As(err, &net):
		return http.StatusServiceUnavailable
	case errors.As(err, new(breakdown)), errors.As(err, new(*runlog.CorruptError)), errors.As(err, new(*fs.PathError)), errors.Is(err, runlog.ErrUnknown), errors.Is(err, runlog.ErrStoreReset):
		return http.StatusInternalServerError
	}
	return http.StatusConflict
}

// A moment is a run as of one of its records.
type moment struct {
	mu       sync.Mutex // of what reads it
	run      transcript.Run
	progress draw.Progress
}

// past returns a run as of one of its records, and the number of its last one.
func (s *server) past(ctx context.Context, id string, at uint64) (*moment, uint64, error) {
	h, err := s.hub(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	h.mu.Lock()
	head := h.run.Seq
	h.mu.Unlock()
	if at > head {
		return nil, 0, refuse(http.StatusNotFound, "Run %s has no record %d; its last one is %d.", id, at, head)
	}
	m, err := s.folds.of(fmt.Sprint(id, " ", at), func() (*moment, error) {
		store, err := s.host.Store(ctx, true)
		if err != nil {
			return nil, err
		}
		m := &moment{}
		for rec, err := range runlog.Records(ctx, store, id, 0) {
			if err != nil {
				return nil, err
			}
			if rec.Seq > at {
				break
			}
			m.run.Apply(rec)
			m.progress.Apply(&rec)
		}
		return m, nil
	})
	return m, head, err
}
