package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/memory"
)

func memoryCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "memory", Short: "Look at what agents remember across runs, and change it",
		Long: `Look at what agents remember across runs, and change it

Agents keep notes with the tool remember, and look them up with recall. Each folder has its own
notes, in the store of its runs.`,
		Example: examples(a.cfg.Name, "memory list", "the notes of this folder", `memory list "how we deploy"`, "those about something",
			`memory put style "Write British English."`, "", "memory rm style", ""),
	}
	c.AddCommand(memoryList(a), memoryPut(a), memoryRm(a))
	return listFirst(a, c)
}

// space returns the namespace that a command is about.
func (a *app) space(cmd *cobra.Command, name string, look bool) (*memory.Space, error) {
	m, err := a.host().Memory(cmd.Context(), look)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = a.host().Namespace()
	}
	s, err := m.In(name)
	if err != nil {
		return nil, usage("--namespace: " + err.Error())
	}
	return s, nil
}

func addNamespace(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "namespace", "", "another namespace than that of this folder")
}

func memoryList(a *app) *cobra.Command {
	var name string
	var names bool
	cmd := &cobra.Command{
		Use: "list [TEXT]", Aliases: []string{"ls", "search"}, Short: "List the notes, or those about TEXT", Args: cobra.ArbitraryArgs,
		Example: examples(a.cfg.Name, "memory list", "", `memory list "how we deploy"`, "", "memory list --namespaces", ""),
	}
	addNamespace(cmd, &name)
	cmd.Flags().BoolVar(&names, "namespaces", false, "list the namespaces of the store that have notes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if names {
			m, err := a.host().Memory(cmd.Context(), true)
			if err != nil {
				return err
			}
			all, err := m.Namespaces(cmd.Context(), name)
			if a.programs() {
				return errors.Join(err, rows(a.out, all))
			}
			for _, n := range all {
				a.out.line(n)
			}
			return err
		}
		s, err := a.space(cmd, name, true)
		if err != nil {
			return err
		}
		items, err := s.Items(cmd.Context())
		if about := strings.Join(args, " "); about != "" {
			items, err = s.Search(cmd.Context(), about, 20)
		}
		if err != nil {
			return err
		}
		if a.programs() {
			return rows(a.out, items)
		}
		for i := range items {
			a.out.line(noteText(&items[i]))
		}
		switch {
		case len(items) > 0 || a.set.Quiet:
		case len(args) > 0:
			a.err.line("there is no note about that; all of them: " + a.hint("memory", "list"))
		default:
			of := "for this folder"
			if name != "" {
				of = "in the namespace " + s.Name()
			}
			a.err.line("there are no notes " + of + " in " + storeName(a))
			a.err.line("  add one: " + a.hint("memory", "put", "style", `"Write British English."`))
			a.err.line("  which namespaces have notes: " + a.hint("memory", "list", "--namespaces"))
		}
		return nil
	}
	return cmd
}

func noteText(i *memory.Item) string {
	when := i.Updated.Format(time.DateOnly)
	if i.Run != "" {
		when += ", run " + i.Run
	}
	if !i.Expires.IsZero() {
		when += ", until " + i.Expires.Format(time.DateOnly)
	}
	return fmt.Sprintf("%s  %s  (%s)", clean.Text(i.Key), strings.Join(strings.Fields(clean.Text(i.Text())), " "), when)
}

func memoryPut(a *app) *cobra.Command {
	var name string
	var keep time.Duration
	cmd := &cobra.Command{
		Use: "put NAME TEXT", Short: "Add a note, or replace the one of that name", Args: cobra.ArbitraryArgs,
		Example: examples(a.cfg.Name, `memory put style "Write British English."`, "", `memory put freeze "No releases this week." --keep 168h`, ""),
	}
	addNamespace(cmd, &name)
	cmd.Flags().DurationVar(&keep, "keep", 0, "how long until it is forgotten, such as 72h (default: for ever)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) < 2 {
			return usage(`memory put: want a name and a text, such as: ` + a.hint("memory", "put", "style", `"Write British English."`))
		}
		if keep < 0 {
			return usage(fmt.Sprintf("--keep: want a positive duration such as 72h, got %s", keep))
		}
		s, err := a.space(cmd, name, false)
		if err != nil {
			return err
		}
		o := &memory.PutOptions{}
		if keep > 0 {
			o.Expires = time.Now().Add(keep)
		}
		if err := s.Put(cmd.Context(), args[0], strings.Join(args[1:], " "), o); err != nil {
			return err
		}
		if !a.set.Quiet {
			a.err.line(clean.Text(args[0]) + " is remembered in " + s.Name())
		}
		return nil
	}
	return cmd
}

func memoryRm(a *app) *cobra.Command {
	var name string
	var all bool
	cmd := &cobra.Command{
		Use: "rm NAME ...", Aliases: []string{"remove", "delete"}, Short: "Remove notes", Args: cobra.ArbitraryArgs,
		Example: examples(a.cfg.Name, "memory rm style", "", "memory rm --all", "all notes of this folder"),
	}
	addNamespace(cmd, &name)
	cmd.Flags().BoolVar(&all, "all", false, "remove all notes of the namespace")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if all == (len(args) > 0) {
			return usage("memory rm: want the names of notes, or --all; they are in: " + a.hint("memory", "list"))
		}
		s, err := a.space(cmd, name, false)
		if err != nil {
			return err
		}
		if all {
			return s.Clear(cmd.Context())
		}
		var errs []error
		for _, key := range slices.Compact(args) {
			_, err := s.Get(cmd.Context(), key)
			if err == nil {
				err = s.Delete(cmd.Context(), key, "")
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	return cmd
}
