package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/host"
)

func initCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Create a first recipe in this folder", Args: none,
		Long: `Create a first recipe in this folder

It answers a question from the documents of the folder, also with the model offline, which needs no key and no network.
A folder without documents gets one to quote. Nothing that is there already is changed.`,
		Example: examples(a.cfg.Name, "init", ""),
		RunE:    func(*cobra.Command, []string) error { return initFolder(a) },
	}
}

// initFolder creates the initial files of a folder.
func initFolder(a *app) error {
	w, err := a.host().WriteFirst(a.host().Abs("."))
	if err != nil {
		return err
	}
	if a.programs() {
		return a.out.value(w.Files)
	}
	a.out.line(tree(w))
	if w.There {
		a.err.line("  Look   " + a.hint("workflows", "list"))
		return nil
	}
	a.err.line("  Next   " + a.hint("run", w.Recipe, "--model", "offline"))
	return nil
}

// tree lists files, each with its purpose.
func tree(w *host.First) string {
	var b strings.Builder
	b.WriteString(w.Dir)
	var open []string
	for _, f := range slices.SortedFunc(slices.Values(w.Files), func(x, y host.FirstFile) int { return strings.Compare(x.Path, y.Path) }) {
		parts := strings.Split(f.Path, "/")
		for i, part := range parts {
			if i < len(open) && i < len(parts)-1 && open[i] == part {
				continue
			}
			open = parts[:i+1]
			line := "\n" + strings.Repeat("  ", i+1) + part
			if i == len(parts)-1 {
				line += "   " + f.What
				if !f.Written {
					line += " (was there, and was left as it is)"
				}
			} else {
				line += "/"
			}
			b.WriteString(line)
		}
	}
	return b.String()
}
