package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
)

// The three programs print what they have found, read compressed files, are replayed, and say which line of a file is wrong.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	env := map[string]string{"HOME": filepath.Join(dir, "home"), "XDG_DATA_HOME": filepath.Join(dir, "data")}
	edges := "from,to,length\nhome,about,2\nhome,product\nhome,links\nabout,home\nproduct,home\nlinks,home\nlinks,product,0.5\n# and apart\nx\ty\n"
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	_, err := z.Write([]byte(edges))
	for _, err := range []error{err, z.Close(), os.WriteFile("edges.csv", []byte(edges), 0o600), os.WriteFile("edges.gz", small.Bytes(), 0o600),
		os.WriteFile("bad.csv", []byte("a,b\na\n"), 0o600), os.WriteFile("worse.csv", []byte("a,b\na,b,-1\n"), 0o600), os.WriteFile("none.csv", nil, 0o600),
		os.WriteFile("first.txt", []byte("a b x\nb a 1\n"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"run pagerank --edges edges.csv", "1. 0.399615  home\n  2. 0.209622  product\n  3. 0.147104  about\n  4. 0.147104  links\n  5. 0.062676  y\n  6. 0.033879  x\n", cli.ExitOK},
		{"run pagerank --edges edges.gz --top 1", "home\n1 of 6 lines, after 35 supersteps", cli.ExitOK},
		{"runs replay @last", "no model called", cli.ExitOK},
		{"run components --edges edges.csv", "1. 4 vertices with home\n  2. 2 vertices with x\n2 of 2 lines", cli.ExitOK},
		{"run shortest --edges edges.csv --from links", "1. 0  links\n  2. 0.5  product\n  3. 1  home\n  4. 3  about\n4 of 4 lines", cli.ExitOK},
		{"run shortest --edges edges.csv --from nobody", `has "nobody" at an end; name a vertex with --from`, cli.ExitFailed},
		{"run pagerank --edges bad.csv", "bad.csv, line 2: want two ids", cli.ExitFailed},
		{"run pagerank --edges worse.csv", `worse.csv, line 2: the length "-1" is no number from 0 on`, cli.ExitFailed},
		{"run pagerank --edges none.csv", "none.csv has no edges", cli.ExitFailed},
		{"run pagerank --edges first.txt", `first.txt, line 1: the length "x" is no number from 0 on; names of columns begin with from or source`, cli.ExitFailed},
		{"run pagerank --edges gone.csv", "gone.csv; name a file of edges", cli.ExitUsage},
		{"run pagerank --edges .", "is a folder; name a file of edges", cli.ExitUsage},
		{"run pagerank --edges edges.csv --top 0", "--top: want 1 or more lines, got 0", cli.ExitUsage},
		{"run pagerank --edges edges.csv --top -3", "--top: want 1 or more lines, got -3", cli.ExitUsage},
	} {
		own, err := workflows()
		if err != nil {
			t.Fatal(err)
		}
		cfg := config(own)
		cfg.Env, cfg.Environ = func(name string) string { return env[name] }, []string{}
		var out, errs bytes.Buffer
		code := cli.Main(cfg, &cli.Options{Args: strings.Fields(c.args), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
		if all := out.String() + errs.String(); code != c.code || !strings.Contains(all, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s", c.args, code, c.code, c.want, all)
		}
	}
}

// Who resumes a run of a file that has changed can put it back.
func TestChangedEdges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "edges.txt")
	if err := os.WriteFile(path, []byte("a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := read(&inputs{Edges: path, Digest: "sha256:other"}, false); err == nil || !strings.Contains(err.Error(), "put it back to resume the run, or start another run") {
		t.Error(err)
	}
}
