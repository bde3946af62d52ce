package cover

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Program returns the program that a word names, without folder, extension and version.
func Program(word string) string {
	name := strings.ToLower(filepath.Base(filepath.FromSlash(word)))
	name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, ".exe"), ".cmd"), ".bat")
	if cut := strings.TrimRight(name, "0123456789."); cut != "" {
		name = cut
	}
	return strings.TrimSuffix(name, "-")
}

// Families returns the language families of the interpreters.
func Families() map[string]string {
	return map[string]string{
		"python": "py", "pythonw": "py", "pypy": "py", "node": "js", "nodejs": "js", "bun": "js", "deno": "js", "tsx": "js", "ts-node": "js",
		"ruby": "rb", "perl": "pl", "php": "php", "lua": "lua", "sh": "sh", "bash": "sh", "zsh": "sh", "dash": "sh", "ksh": "sh", "fish": "sh",
	}
}

func code() map[string][]string {
	return map[string][]string{
		"py":  {".py", ".pyc", ".pyw", ".pyd", ".so", ".pth", ".egg", ".zip", ".toml", ".cfg"},
		"js":  {".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".json", ".node", ".wasm"},
		"rb":  {".rb", ".so", ".ru", ".gemspec"},
		"pl":  {".pl", ".pm", ".so"},
		"php": {".php", ".phar", ".inc"},
		"lua": {".lua", ".so"},
		"sh":  {".sh", ".bash", ".zsh", ".ksh", ".fish", ".awk", ".sed", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl"},
		"go":  {".go", ".s", ".c", ".h", ".mod", ".sum", ".work"},
		"rs":  {".rs", ".toml", ".lock"},
	}
}

// familyOf returns the family of a file by its extension: none for data, every if it could be
// anything.
func familyOf(ext string) string {
	ext = strings.ToLower(ext)
	for _, family := range []string{"py", "rb", "pl", "php", "lua", "sh"} {
		if code()[family][0] == ext {
			return family
		}
	}
	switch {
	case slices.Contains([]string{".json", ".yaml", ".yml", ".toml", ".txt", ".md", ".csv", ".env", ".ini", ".cfg"}, ext):
		return "data"
	case slices.Contains(code()["js"], ext):
		return "js"
	}
	return "every"
}

// extensions returns the file extensions of a family.
func extensions(family string) []string {
	if family != "every" {
		return code()[family]
	}
	var out []string
	for _, list := range code() {
		out = append(out, list...)
	}
	return out
}

// worksIn reports whether a command runs files from its working folder, and whether it also
// searches the parent folders.
func worksIn(argv []string) (upwards, ok bool) {
	words := argv
	if len(argv) > 0 && slices.Contains([]string{"env", "nice", "nohup", "time", "timeout", "exec", "command", "xargs", "sudo", "setsid",
		"stdbuf", "corepack", "cmd", "sh", "bash", "zsh", "dash", "ksh", "fish"}, Program(argv[0])) {
		// The program that it starts is somewhere among the words.
		words = nil
		for _, w := range argv[1:] {
			words = append(words, strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune(" \t\n;|&<>()'\"`", r) })...)
		}
		for i := range words {
			u, is := programWorksIn(words[i:])
			upwards, ok = upwards || u, ok || is
		}
		return upwards, ok
	}
	return programWorksIn(words)
}

// fetches reports whether a command runs a package by its name, from where packages come from or from
// those that are installed: npx, uvx and the like.
func fetches(argv []string) bool {
	var words []string
	for _, w := range argv {
		if !strings.HasPrefix(w, "-") {
			words = append(words, w)
		}
	}
	if len(words) < 2 {
		return false
	}
	switch Program(words[0]) {
	case "npx", "bunx", "pnpx", "uvx":
		return true
	case "npm", "pnpm", "yarn", "bun", "pipx":
		return slices.Contains([]string{"exec", "dlx", "x", "run-package"}, words[1]) || Program(words[0]) == "pipx" && words[1] == "run"
	}
	return false
}

func programWorksIn(argv []string) (upwards, ok bool) {
	if len(argv) == 0 {
		return false, false
	}
	name, rest := Program(argv[0]), argv[1:]
	has := func(words ...string) bool {
		return slices.ContainsFunc(rest, func(w string) bool {
			return slices.Contains(words, strings.SplitN(w, "=", 2)[0])
		})
	}
	if fetches(argv) {
		return false, false
	}
	switch name {
	case "npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "just", "task", "uv", "poetry", "pipenv", "pdm", "hatch", "tox", "nox", "rake",
		"bundle", "gradle", "mvn", "mise", "composer", "dotnet", "pytest":
		return true, true
	case "make", "gmake":
		return false, true
	case "cargo", "go":
		return true, has("run", "test", "generate", "tool", "build", "xtask")
	case "deno":
		return true, has("task", "test", "run")
	case "node", "nodejs":
		return true, has("--run", "--test")
	case "python", "pythonw", "pypy":
		for i, w := range rest {
			if i > 0 && slices.Contains([]string{"-W", "-X", "--check-hash-based-pycs"}, rest[i-1]) {
				continue // it belongs to that
			}
			if !strings.HasPrefix(w, "-") {
				return false, false
			}
			if !strings.HasPrefix(w, "--") && strings.ContainsAny(w, "mc") { // -m NAME, -c TEXT, -um NAME
				return false, true
			}
		}
	}
	return false, false
}

// working accepts the files that such programs may run from their working folder.
func working(d fs.DirEntry, depth int) bool {
	ext := strings.ToLower(filepath.Ext(d.Name()))
	if depth == 0 || marker(d.Name()) || slices.Contains([]string{".mk", ".mak", ".just", ".gradle", ".kts", ".lock"}, ext) {
		return true
	}
	for _, list := range code() {
		if slices.Contains(list, ext) {
			return true
		}
	}
	if ext != "" {
		return false
	}
	info, err := d.Info()
	return err == nil && info.Mode()&0o111 != 0
}

// marker reports whether a file name marks a project for such programs or configures them.
func marker(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "makefile", "gnumakefile", "justfile", ".justfile", "package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock",
		"pnpm-lock.yaml", "pnpm-workspace.yaml",
		".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "bun.lock", "bun.lockb", "bunfig.toml", "deno.json", "deno.jsonc", "deno.lock", "node_modules",
		"cargo.toml", "cargo.lock", "go.mod", "go.sum", "go.work", "go.work.sum", "pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "uv.lock",
		"uv.toml", "poetry.lock", "pipfile", "pipfile.lock",
		"noxfile.py", "conftest.py", "pytest.ini", "rakefile", "gemfile", "gemfile.lock", "pom.xml", "composer.json", "composer.lock", "mise.toml",
		".mise.toml", ".tool-versions", ".env":
		return true
	}
	return strings.HasPrefix(name, "taskfile.") || strings.HasPrefix(name, "build.gradle") || strings.HasPrefix(name, "settings.gradle")
}

// Quiet are variables that keep python from reading and writing what it compiled into the folders
// that are covered: __pycache__ is not, and changes whenever something runs.
func Quiet() []string {
	return []string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONPYCACHEPREFIX=" + filepath.Join(string(filepath.Separator), "dev", "null", "pycache")}
}
