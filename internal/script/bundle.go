package script

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/superstep-dev/superstep/internal/inside"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// A bundle is a module and what it imports, as one text.
type bundle struct {
	code      []byte
	sourceMap []byte
	digest    string
	exports   []string // names, "default" among them
	files     []string // relative to the root
	open      []string // why it may load more than that
	foreign   []string // modules of a runtime that it imports: "node:fs", "bun"
	env       []string // what its text has for declarations of tools
	needs     sandbox.Needs
}

// The modules of ours that a bundle imports, beside which it is put.
const (
	pluginModule = "./superstep-plugin.mjs"
	zodModule    = "./superstep-zod.mjs"
)

// bundleModule bundles a module in memory. The real path is read; the other one is used in
// messages.
func bundleModule(root, real, shown string) (*bundle, []Problem) {
	guard := &guard{root: root}
	if err := guard.above(filepath.Dir(real)); err != nil {
		return nil, []Problem{{File: shown, Text: err.Error()}}
	}
	result := api.Build(api.BuildOptions{
		EntryPoints:    []string{real},
		Outfile:        filepath.Join(root, "superstep-bundle.mjs"), // never written
		AbsWorkingDir:  root,
		Bundle:         true,
		Format:         api.FormatESModule,
		Platform:       api.PlatformNode,
		MainFields:     []string{"module", "main"},
		Target:         api.ES2022,
		TreeShaking:    api.TreeShakingTrue,
		Sourcemap:      api.SourceMapExternal,
		SourcesContent: api.SourcesContentExclude,
		TsconfigRaw:    "{}", // what lies around, perhaps outside of the root, changes nothing
		External:       []string{"bun", "bun:*"},
		Metafile:       true,
		LogLevel:       api.LogLevelSilent,
		LogLimit:       20,
		LogOverride: map[string]api.LogLevel{ // what the bundle cannot hold; see openings
			"unsupported-dynamic-import": api.LogLevelWarning, "unsupported-require-call": api.LogLevelWarning, "indirect-require": api.LogLevelWarning,
		},
		Charset:           api.CharsetUTF8,
		LegalComments:     api.LegalCommentsNone,
		ResolveExtensions: []string{".ts", ".tsx", ".mts", ".cts", ".mjs", ".js", ".cjs", ".jsx", ".json"},
		Loader:            map[string]api.Loader{".txt": api.LoaderText, ".md": api.LoaderText},
		Define: map[string]string{
			// Our own names for these variables, since bun defines __dirname differently. They
			// refer to the tool's file.
			"import.meta.url": "__superstep_url", "__dirname": "__superstep_dirname", "__filename": "__superstep_filename",
			"import.meta.dirname": "__superstep_dirname", "import.meta.filename": "__superstep_filename",
			"import.meta.dir": "__superstep_dirname", "import.meta.path": "__superstep_filename",
		},
		Plugins: []api.Plugin{guard.plugin()},
	})
	problems := messages(root, shown, result.Errors, false)
	if len(problems) > 0 {
		return nil, problems
	}
	b := new(bundle)
	for _, w := range result.Warnings {
		switch {
		case w.Location == nil || strings.Contains(w.Location.File, "node_modules/"):
		case w.ID == "unsupported-dynamic-import" || w.ID == "unsupported-require-call" || w.ID == "indirect-require":
			guard.opened = append(guard.opened, opening{w.Location.File, w.Location.Line, map[string]string{
				"unsupported-dynamic-import": "import() of a computed name", "unsupported-require-call": "require() of a computed name",
				"indirect-require": "require is handed on",
			}[w.ID]})
		default:
			problems = append(problems, messages(root, shown, []api.Message{w}, true)...)
		}
	}
	for _, o := range guard.openings() {
		b.open = append(b.open, fmt.Sprintf("%s:%d: %s", o.file, o.line, o.what))
		problems = append(problems, Problem{File: filepath.Join(root, filepath.FromSlash(o.file)), Line: o.line, Warning: true,
			Text: o.what + ": what that loads is not covered by trust; import it by its name"})
	}
	for _, f := range result.OutputFiles {
		switch filepath.Ext(f.Path) {
		case ".map":
			b.sourceMap = f.Contents
		default:
			b.code = f.Contents
		}
	}
	if len(b.code) > maxFile {
		return nil, append(problems, Problem{File: shown, Text: fmt.Sprintf("is %d MiB with what it imports, more than %d", len(b.code)>>20, maxFile>>20)})
	}
	if err := b.readMetafile(result.Metafile); err != nil {
		return nil, append(problems, Problem{File: shown, Text: err.Error()})
	}
	b.declarations()
	rel, _ := inside.Rel(root, real)
	h := sha256.New()
	fmt.Fprintf(h, "superstep module 1\n%d %s\n", len(rel), rel)
	h.Write(b.code)
	b.digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
	return b, problems
}

var declaration = regexp.MustCompile(`[{,]"?(env|network|read|write)"?:("(?:[^"\\\n]|\\.)*"|\[[^\[\]]*\])`)

// declarations finds what the module's tools can declare that they need: all texts that its code
// has for one of the keys, of a tool or not. It may find more than is declared, but nothing else is
// ever granted.
func (b *bundle) declarations() {
	plain := api.Transform(string(b.code), api.TransformOptions{Loader: api.LoaderJS, MinifyWhitespace: true, Charset: api.CharsetUTF8,
		LegalComments: api.LegalCommentsNone, LogLevel: api.LogLevelSilent})
	for _, m := range declaration.FindAllSubmatch(plain.Code, 1000) {
		key, text := string(m[1]), m[2]
		if text[0] == '"' {
			text = slices.Concat([]byte("["), text, []byte("]"))
		}
		var values []string
		if json.Unmarshal(text, &values) != nil {
			continue
		}
		for _, v := range values {
			if key != "env" {
				_ = b.needs.Add(key, v) // of a tool it is told when it is loaded
			} else if checkEnv([]string{v}) == nil && !slices.Contains(b.env, v) {
				b.env = append(b.env, v)
			}
		}
	}
	for _, list := range []*[]string{&b.needs.Network, &b.needs.Read, &b.needs.Write} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
}

func (b *bundle) readMetafile(text string) error {
	var meta struct {
		Inputs  map[string]json.RawMessage
		Outputs map[string]struct {
			Exports    []string
			EntryPoint string
			Imports    []struct {
				Path     string
				External bool
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &meta); err != nil {
		return fmt.Errorf("cannot be understood: %w", err)
	}
	for path := range meta.Inputs {
		b.files = append(b.files, path)
	}
	slices.Sort(b.files)
	for _, out := range meta.Outputs {
		if out.EntryPoint == "" {
			continue
		}
		b.exports = out.Exports
		for _, i := range out.Imports {
			if i.External && i.Path != pluginModule && i.Path != zodModule {
				b.foreign = append(b.foreign, i.Path)
			}
		}
	}
	slices.Sort(b.foreign)
	b.foreign = slices.Compact(b.foreign)
	return nil
}

// A guard decides what a bundle may read.
type guard struct {
	root string

	mu     sync.Mutex
	total  int64
	opened []opening
}

// An opening is a place in the code by which a module may load code outside its bundle.
type opening struct {
	file string // relative to the root
	line int
	what string
}

var indirect = regexp.MustCompile(`\b(createRequire|(?:globalThis|global|module)\s*\??\.\s*require|getBuiltinModule)\b`)

// scan finds ways to load code that the bundler does not recognize.
func (g *guard) scan(file, text string) {
	seen := map[string]bool{}
	for _, at := range indirect.FindAllStringIndex(text, -1) {
		what := text[at[0]:at[1]]
		start := strings.LastIndexByte(text[:at[0]], '\n') + 1
		if seen[what] || strings.HasPrefix(strings.TrimSpace(text[start:at[0]]), "//") {
			continue
		}
		seen[what] = true
		g.mu.Lock()
		g.opened = append(g.opened, opening{file, strings.Count(text[:at[0]], "\n") + 1, clip(what) + " is used"})
		g.mu.Unlock()
	}
}

// openings returns the places, sorted and limited to a readable number.
func (g *guard) openings() []opening {
	slices.SortFunc(g.opened, func(a, b opening) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.what, b.what))
	})
	out := slices.Compact(g.opened)
	return out[:min(len(out), 20)]
}

// ours returns which of our modules an import means, or "".
func ours(path string) string {
	switch path {
	case "@superstep/plugin", "@superstep/plugin/tool", "@atomic/plugin", "@bastani/atomic", "@bastani/atomic/plugin", "@opencode-ai/plugin",
		"@opencode-ai/plugin/tool":
		return pluginModule
	}
	return ""
}

// resolving marks an import of zod that the guard itself asks for.
type resolving struct{}

func (g *guard) plugin() api.Plugin {
	return api.Plugin{Name: "superstep", Setup: func(build api.PluginBuild) {
		build.OnResolve(api.OnResolveOptions{Filter: `.*`}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			return api.OnResolveResult{}, g.readable(a.ResolveDir, a.Path)
		})
		build.OnResolve(api.OnResolveOptions{Filter: `^(@superstep/|@atomic/|@bastani/|@opencode-ai/)`}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			if path := ours(a.Path); path != "" {
				return api.OnResolveResult{Path: path, External: true}, nil
			}
			return api.OnResolveResult{}, nil
		})
		build.OnResolve(api.OnResolveOptions{Filter: `^zod(/v3|/v4)?$`}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			if _, again := a.PluginData.(resolving); again {
				return api.OnResolveResult{}, nil
			}
			r := build.Resolve(a.Path, api.ResolveOptions{Importer: a.Importer, ResolveDir: a.ResolveDir, Kind: a.Kind, PluginData: resolving{}})
			if len(r.Errors) == 0 && r.Path != "" {
				return api.OnResolveResult{Path: r.Path, Namespace: r.Namespace}, nil
			}
			return api.OnResolveResult{Path: zodModule, External: true}, nil
		})
		build.OnResolve(api.OnResolveOptions{Filter: `^(?i:https?:|//|npm:|jsr:|file:)`}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			return api.OnResolveResult{}, fmt.Errorf("imports %s, which is not in the project; install it there and import it by its name", clip(a.Path))
		})
		build.OnLoad(api.OnLoadOptions{Filter: `.*`, Namespace: "file"}, g.load)
	}}
}

// esbuild reads these files in every folder that it visits, and would block on a FIFO. So they are
// checked first.
func telling() []string { return []string{"package.json", "tsconfig.json", "jsconfig.json"} }

// folder returns why the files that describe a folder must not be read.
func (g *guard) folder(dir string) error {
	for _, name := range telling() {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a file; remove it", filepath.Join(dir, name))
		}
	}
	return nil
}

// above looks at a folder and those that it is in.
func (g *guard) above(dir string) error {
	for {
		if err := g.folder(dir); err != nil {
			return err
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

// readable looks at the folders that an import leads to.
func (g *guard) readable(dir, path string) error {
	if filepath.IsAbs(path) || strings.HasPrefix(path, ".") {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if err := g.folder(path); err != nil {
			return err
		}
		return g.above(filepath.Dir(path))
	}
	for {
		at := filepath.Join(dir, "node_modules")
		for part := range strings.SplitSeq(path, "/") {
			at = filepath.Join(at, part)
			if err := g.folder(at); err != nil {
				return err
			}
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

// load reads a file within the root, and none outside it.
func (g *guard) load(a api.OnLoadArgs) (api.OnLoadResult, error) {
	real, err := filepath.EvalSymlinks(a.Path)
	if err != nil {
		return api.OnLoadResult{}, err
	}
	if _, ok := inside.Rel(g.root, real); !ok {
		return api.OnLoadResult{}, fmt.Errorf("imports %s, which is outside of %s; copy it into the project", real, g.root)
	}
	loader, ok := loaders()[strings.ToLower(filepath.Ext(real))]
	if !ok {
		return api.OnLoadResult{}, fmt.Errorf("%s cannot be imported; import scripts, JSON or text (.txt, .md)", filepath.Base(real))
	}
	b, err := readRegular(real, maxFile)
	if err != nil {
		return api.OnLoadResult{}, err
	}
	g.mu.Lock()
	g.total += int64(len(b))
	over := g.total > 4*maxFile // what is left after unused parts were dropped may be within the limit
	g.mu.Unlock()
	if over {
		return api.OnLoadResult{}, fmt.Errorf("the tool imports more than %d MiB", 4*maxFile>>20)
	}
	text := string(bytes.TrimPrefix(b, []byte("\ufeff")))
	why := ""
	switch loader {
	case api.LoaderText:
	case api.LoaderJSON:
		why = tooDenseData(text)
	default:
		why = tooDense(text)
	}
	if rel, ok := inside.Rel(g.root, real); ok && loader != api.LoaderText && loader != api.LoaderJSON && !strings.Contains("/"+rel, "/node_modules/") {
		g.scan(rel, text)
	}
	if why != "" {
		return api.OnLoadResult{}, fmt.Errorf("%s %s", filepath.Base(real), why)
	}
	return api.OnLoadResult{Contents: &text, Loader: loader, ResolveDir: filepath.Dir(real)}, nil
}

func loaders() map[string]api.Loader {
	return map[string]api.Loader{
		".ts": api.LoaderTS, ".mts": api.LoaderTS, ".cts": api.LoaderTS, ".tsx": api.LoaderTSX,
		".js": api.LoaderJS, ".mjs": api.LoaderJS, ".cjs": api.LoaderJS, ".jsx": api.LoaderJSX,
		".json": api.LoaderJSON, ".txt": api.LoaderText, ".md": api.LoaderText,
	}
}

// unresolved finds the package that an import of a name without a path asks for.
var unresolved = regexp.MustCompile(`^Could not resolve "((?:@[^/"]+/)?[^./"@][^/"]*)`)

func messages(root, shown string, list []api.Message, warning bool) []Problem {
	var out []Problem
	for _, m := range list {
		p := Problem{File: shown, Text: m.Text, Warning: warning}
		if name := unresolved.FindStringSubmatch(m.Text); name != nil {
			p.Text += "; install it where the tool is: npm install " + name[1]
		}
		if l := m.Location; l != nil {
			p.Line, p.Column = l.Line, l.Column+1
			if l.File != "" && filepath.Base(l.File) != filepath.Base(shown) {
				p.File = filepath.Join(root, l.File)
			}
		}
		out = append(out, p)
	}
	sortProblems(out)
	return out
}
