// Package schedule computes when schedules start runs. It has no clock and does no I/O.
package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// A Cron is a cron expression in a time zone.
type Cron struct {
	spec   cron.SpecSchedule // over times without a zone, which are written as UTC
	loc    *time.Location
	hourly bool // it names every hour
}

const example = `such as "30 9 * * mon-fri" or @daily`

var fields = [...]string{"minute (0-59)", "hour (0-23)", "day of the month (1-31)", "month (1-12 or jan-dec)", "weekday (0-7 or sun-sat)"}

// Parse parses a cron expression of five fields, or a name such as @daily, for an IANA time zone. A zone of "" is UTC. The error names the field that is
// wrong.
func Parse(expr, zone string) (*Cron, error) {
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, fmt.Errorf("time zone %q is unknown: use an IANA name such as Europe/Berlin, America/New_York or UTC", zone)
	}
	words := strings.Fields(expr)
	switch {
	case len(words) > 0 && (words[0] == "@every" || len(words) == 1 && strings.HasPrefix(words[0], "@")):
		return named(words[0], loc)
	case len(words) == 6 && !strings.Contains(words[0], "="):
		return nil, fmt.Errorf("cron expression %q has six fields: seconds (or years) are not supported; use five, %s", expr, example)
	case len(words) != 5:
		return nil, fmt.Errorf("cron expression %q: want five fields (minute, hour, day of the month, month, weekday) or a name, got %d; %s", expr, len(words), example)
	}
	words[4] = sundays(words[4])
	for i, word := range words {
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = word
		_, err := cron.ParseStandard(strings.Join(alone, " "))
		switch {
		case strings.ContainsAny(word, "LlWw#") && err != nil:
			return nil, fmt.Errorf("cron expression %q: %s is %q: L, W and # (the last day, the nearest weekday, the n-th weekday) are not supported, since "+
				"cron programs disagree about them; list the days, or let the workflow check the date", expr, fields[i], word)
		case err != nil:
			return nil, fmt.Errorf("cron expression %q: %s is %q: %w; %s", expr, fields[i], word, err, example)
		case strings.Trim(word, ",") != word || strings.Contains(word, ",,"):
			return nil, fmt.Errorf("cron expression %q: %s is %q: a list has an empty entry; remove a comma", expr, fields[i], word)
		}
	}
	return parse(strings.Join(words, " "), expr, loc)
}

// named parses a name.
func named(name string, loc *time.Location) (*Cron, error) {
	switch strings.ToLower(name) {
	case "@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually":
		return parse(strings.ToLower(name), name, loc)
	case "@every":
		return nil, fmt.Errorf("@every is not supported, since it has no fixed times: use */N, such as \"*/5 * * * *\" for every five minutes")
	}
	return nil, fmt.Errorf("there is no %s: use @hourly, @daily, @weekly, @monthly, @yearly, or five fields %s", name, example)
}

func parse(standard, given string, loc *time.Location) (*Cron, error) {
	s, err := cron.ParseStandard(standard)
	if err != nil {
		return nil, fmt.Errorf("cron expression %q: %w", given, err)
	}
	spec, ok := s.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("cron expression %q has no fixed times: use five fields, %s", given, example)
	}
	c := &Cron{*spec, loc, spec.Hour&(1<<24-1) == 1<<24-1}
	if c.spec.Location = time.UTC; c.spec.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("cron expression %q names no date that exists; check its day and month", given)
	}
	return c, nil
}

// sundays rewrites the weekday 7, which the library does not know.
func sundays(field string) string {
	days := strings.Split(field, ",")
	for i, d := range days {
		if from, ok := strings.CutSuffix(d, "-7"); ok && from != "7" {
			days[i] = from + "-6,0"
		} else if d == "7" || d == "7-7" {
			days[i] = "0"
		}
	}
	return strings.Join(days, ",")
}

// Zone returns the name of the time zone.
func (c *Cron) Zone() string { return c.loc.String() }

// Next returns the first time after a time that the expression names, in its zone, or the zero time if there is none within five years. A time that the
// zone skips is replaced by the first instant after the gap. A time that occurs twice counts once, the first time, unless the expression names every hour:
// such an expression is an interval, and would leave an hour out.
func (c *Cron) Next(after time.Time) time.Time {
	at := after.In(c.loc)
	for wall := naive(at); ; {
		_, offset := at.Zone()
		start, end := at.ZoneBounds() // the walls of this period have one offset
		if !start.IsZero() && !c.hourly {
			_, before := start.Add(-1).In(c.loc).Zone()
			if again := naive(start).Add(seconds(before-offset) - 1); wall.Before(again) {
				wall = again // until then, each wall was in the period before
			}
		}
		next := c.spec.Next(wall)
		if next.IsZero() {
			return next
		}
		if t := next.Add(-seconds(offset)); end.IsZero() || t.Before(end) {
			return t.In(c.loc)
		}
		if naive(end).After(next) { // it is skipped
			return end.In(c.loc)
		}
		at, wall = end.In(c.loc), naive(end).Add(-1)
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// naive returns what a clock on the wall shows, as if it were UTC.
func naive(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(seconds(offset))
}

// Gap returns the shortest time between the next ticks after a time.
func (c *Cron) Gap(after time.Time) time.Duration {
	shortest := 366 * 24 * time.Hour
	for tick, i := c.Next(after), 0; i < 50; i++ {
		next := c.Next(tick)
		if next.IsZero() {
			break
		}
		shortest, tick = min(shortest, next.Sub(tick)), next
	}
	return shortest
}
