package docindex

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
)

// TestHostile holds that no file, however made, takes long to index and search or much memory.
func TestHostile(t *testing.T) {
	faults.Unraced(t)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, maxFile+1)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var words strings.Builder
	for i := range 1 << 18 {
		fmt.Fprintf(&words, "w%x ", i)
	}
	for name, text := range map[string]string{
		"bomb.txt.gz":  bomb.String(),
		"line.txt":     words.String() + strings.Repeat("x ", maxFile/4),
		"empty.txt":    strings.Repeat("\n", maxFile),
		"empty.html":   strings.Repeat("\n", maxFile),
		"nested.html":  strings.Repeat("<div>", 100_000) + "deep" + strings.Repeat("</div>", 100_000),
		"heading.html": "<h1>" + strings.Repeat(" \n", 100_000),
		"title.html":   "<h1>" + strings.Repeat("a\n", 100_000),
		"go.go":        strings.Repeat("//go:x\n", 100_000),
		"fence.md":     strings.Repeat("~", 1<<20) + "\n" + strings.Repeat("```\n", 100_000),
		"quotes.md":    strings.Repeat("> ", 1<<20),
	} {
		dir := folder(t, map[string]string{name: text})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		ix := open(t, dir, t.TempDir())
		search(t, ix, "deep w12 x")
		runtime.ReadMemStats(&after)
		took, mb := time.Since(began), (after.TotalAlloc-before.TotalAlloc)/1e6
		t.Logf("%s: %v, %d MB allocated", name, took, mb)
		if most := faults.Bound(10 * time.Second); took > most && !faults.Raced || mb > 500 {
			t.Errorf("%s: %v, %d MB allocated; want at most %v and 500 MB", name, took, mb, most)
		}
	}
	files := make(map[string]string)
	for i := range 200 {
		files[fmt.Sprint(i)] = ""
	}
	var limit *LimitError
	if _, err := Open(t.Context(), folder(t, files), &Options{CacheDir: t.TempDir(), Limits: &Limits{100, 1 << 20, time.Minute}}); !errors.As(err, &limit) || limit.Files != 101 {
		t.Errorf("%v, want a limit of 100 files", err)
	}
}
