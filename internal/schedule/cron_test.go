package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// oracle returns the ticks of an expression between two instants, by looking at every minute and comparing what a clock on the wall shows.
func oracle(t testing.TB, expr, zone string, from, to time.Time) []time.Time {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(expr)
	sets := make([]map[int]bool, 5)
	for i, bounds := range [][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}} {
		sets[i] = members(t, f[i], bounds[0], bounds[1])
	}
	sets[4][0] = sets[4][0] || sets[4][7]
	hourly := len(sets[1]) == 24
	type wall struct{ year, month, day, hour, minute, weekday int }
	of := func(u time.Time) wall {
		return wall{u.Year(), int(u.Month()), u.Day(), u.Hour(), u.Minute(), int(u.Weekday())}
	}
	matches := func(w wall) bool {
		dom, dow := sets[2][w.day], sets[4][w.weekday]
		day := dom && dow
		if f[2] != "*" && f[4] != "*" {
			day = dom || dow
		}
		return sets[0][w.minute] && sets[1][w.hour] && day && sets[3][w.month]
	}
	seen := map[wall]bool{}
	var out []time.Time
	var last time.Time // what the wall showed a minute before, as UTC
	for at := from.Add(-49 * time.Hour).Truncate(time.Minute); !at.After(to); at = at.Add(time.Minute) {
		local := at.In(loc)
		shown := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
		tick := matches(of(shown)) && (hourly || !seen[of(shown)])
		for gap := last.Add(time.Minute); !last.IsZero() && gap.Before(shown); gap = gap.Add(time.Minute) {
			tick = tick || matches(of(gap))
		}
		seen[of(shown)], last = true, shown
		if tick && at.After(from) {
			out = append(out, at)
		}
	}
	return out
}

func members(t testing.TB, field string, low, high int) map[int]bool {
	t.Helper()
	out := map[int]bool{}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for part := range strings.SplitSeq(field, ",") {
		span, step, stepped := strings.Cut(part, "/")
		from, to := low, high
		if span != "*" {
			a, b, ranged := strings.Cut(span, "-")
			from = number(a)
			switch {
			case ranged:
				to = number(b)
			case !stepped:
				to = from
			}
		}
		by := 1
		if stepped {
			by = number(step)
		}
		for n := from; n <= to; n += by {
			out[n] = true
		}
	}
	return out
}

func ticks(c *Cron, from, to time.Time) []time.Time {
	var out []time.Time
	for at := c.Next(from); !at.IsZero() && !at.After(to); at = c.Next(at) {
		out = append(out, at)
	}
	return out
}

// changes are changes of the clock, with the day before and the day after in UTC.
var changes = []struct{ zone, day string }{
	{"UTC", "2026-03-29"},
	{"Europe/Berlin", "2026-03-29"}, {"Europe/Berlin", "2026-10-25"},
	{"America/New_York", "2026-03-08"}, {"America/New_York", "2026-11-01"},
	{"Australia/Lord_Howe", "2026-04-05"}, {"Australia/Lord_Howe", "2026-10-04"}, // half an hour
	{"America/Havana", "2026-03-08"}, {"America/Havana", "2026-11-01"}, // at midnight
	{"Asia/Beirut", "2026-03-29"}, {"Asia/Beirut", "2026-10-25"},
	{"America/Sao_Paulo", "2018-11-04"}, {"America/Sao_Paulo", "2018-02-18"},
	{"Africa/Casablanca", "2026-02-15"}, {"Africa/Casablanca", "2026-03-22"}, // less in summer, with a month of fasting
	{"Pacific/Apia", "2011-12-30"},                                         // a day that was skipped
	{"Asia/Kathmandu", "1986-01-01"},                                       // a quarter of an hour
	{"Antarctica/Troll", "2026-03-29"}, {"Antarctica/Troll", "2026-10-25"}, // two hours
}

var expressions = []string{
	"* * * * *", "*/10 * * * *", "30 * * * *", "45 * * * *", "15 2 * * *", "30 2 * * *", "0 3 * * *", "*/10 2 * * *", "0 0 * * *", "30 0 * * *", "59 23 * * *",
	"*/7 1-3 * * *", "0 */2 * * *", "30 2 29 * *", "30 2 * * 0", "30 2 * * 7", "0 9 30,31 12 *", "15,45 0-1 1-5 * 6-7", "0 0 1 1 *", "0 12 * 3,10 5-7",
}

// TestNext compares the ticks around changes of the clock with an oracle.
func TestNext(t *testing.T) {
	t.Parallel()
	for _, change := range changes {
		day, err := time.Parse(time.DateOnly, change.day)
		if err != nil {
			t.Fatal(err)
		}
		from, to := day.Add(-36*time.Hour), day.Add(60*time.Hour)
		for _, expr := range expressions {
			c, err := Parse(expr, change.zone)
			if err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprintf("%s in %s, %s", expr, change.zone, change.day), ticks(c, from, to), oracle(t, expr, change.zone, from, to))
		}
	}
}

func same(t testing.TB, what string, got, want []time.Time) {
	t.Helper()
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || !got[i].Equal(want[i]) {
				t.Fatalf("%s: %d ticks, want %d; number %d differs:\n got %v\nwant %v", what, len(got), len(want), i, got[min(i, len(got)):min(i+3, len(got))],
					want[min(i, len(want)):min(i+3, len(want))])
			}
		}
	}
}

// TestNextRandom does so with random expressions, zones, changes and first instants.
func TestNextRandom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		change := rapid.SampledFrom(changes).Draw(r, "change")
		field := func(name string, low, high int) string {
			if rapid.IntRange(0, 2).Draw(r, name+" any") == 0 {
				return "*"
			}
			a := rapid.IntRange(low, high).Draw(r, name)
			switch rapid.IntRange(0, 2).Draw(r, name+" form") {
			case 0:
				return strconv.Itoa(a)
			case 1:
				return fmt.Sprintf("%d-%d/%d", a, rapid.IntRange(a, high).Draw(r, name+" to"), rapid.IntRange(1, 9).Draw(r, name+" step"))
			}
			return fmt.Sprintf("%d,%d", a, rapid.IntRange(low, high).Draw(r, name+" and"))
		}
		expr := strings.Join([]string{field("minute", 0, 59), field("hour", 0, 23), field("day", 1, 31), field("month", 1, 12), field("weekday", 0, 6)}, " ")
		c, err := Parse(expr, change.zone)
		if err != nil {
			r.Skip(err) // 30 February
		}
		day, _ := time.Parse(time.DateOnly, change.day)
		from := day.Add(time.Duration(rapid.IntRange(-48*60, 24*60).Draw(r, "from")) * time.Minute)
		to := from.Add(48 * time.Hour)
		got, want := ticks(c, from, to), oracle(t, expr, change.zone, from, to)
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			r.Fatalf("%s in %s after %v:\n got %v\nwant %v", expr, change.zone, from, got, want)
		}
	})
}

// What the rules mean, as examples.
func TestNextExamples(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ expr, zone, after, want string }{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00"}, // there is no 2:30
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T02:30:00+02:00"}, // the first of two
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T02:30:00+01:00"},
		{"*/30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T02:00:00+01:00"}, // no hour without a tick
		{"0 0 * * *", "America/Havana", "2026-03-07T12:00:00Z", "2026-03-08T01:00:00-04:00"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-04T02:30:00+11:00"},
		{"0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"@weekly", "UTC", "2026-11-27T00:00:00Z", "2026-11-29T00:00:00Z"},
		{"0 0 * * 7", "", "2026-11-27T00:00:00Z", "2026-11-29T00:00:00Z"},
		{"0 0 * * 6-7", "", "2026-11-28T00:00:00Z", "2026-11-29T00:00:00Z"},
	} {
		c, err := Parse(x.expr, x.zone)
		if err != nil {
			t.Fatal(err)
		}
		after, err := time.Parse(time.RFC3339, x.after)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Next(after).Format(time.RFC3339); got != x.want {
			t.Errorf("%s in %q after %s: %s, want %s", x.expr, x.zone, x.after, got, x.want)
		}
	}
}

// Each error names what is wrong and what to do.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ expr, zone, want string }{
		{"", "", "want five fields"},
		{"* * * *", "", "got 4"},
		{"0 0 * * * *", "", "seconds (or years) are not supported"},
		{"0 0 L * *", "", `day of the month (1-31) is "L": L, W and #`},
		{"0 0 * * 5#2", "", `weekday (0-7 or sun-sat) is "5#2": L, W and #`},
		{"61 * * * *", "", `minute (0-59) is "61"`},
		{"0 24 * * *", "", `hour (0-23) is "24"`},
		{"0 0 0 * *", "", "day of the month"},
		{"0 0 * foo *", "", `month (1-12 or jan-dec) is "foo"`},
		{"*/0 * * * *", "", "minute"},
		{"5-1 * * * *", "", "minute"},
		{", * * * *", "", "remove a comma"},
		{"0 0 30 2 *", "", "names no date that exists"},
		{"TZ=Asia/Tokyo * * * * *", "", "got 6"},
		{"@every 5m", "", "use */N"},
		{"@daily 5", "", "want five fields"},
		{"@every", "", "use */N"},
		{"@reboot", "", "there is no @reboot: use @hourly"},
		{"* * * * *", "Berlin", `time zone "Berlin" is unknown: use an IANA name`},
		{"* * * * *", "Local", "IANA"},
		{"* * * * *", "../etc/passwd", "IANA"},
	} {
		_, err := Parse(x.expr, x.zone)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q in %q: %v, want %q", x.expr, x.zone, err, x.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, e := range expressions {
		f.Add(e, "Europe/Berlin")
	}
	f.Add("TZ=0", "")
	f.Add("@daily", "America/Havana")
	f.Fuzz(func(t *testing.T, expr, zone string) {
		c, err := Parse(expr, zone)
		if err != nil {
			return
		}
		at := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
		for range 3 {
			next := c.Next(at)
			if next.IsZero() {
				return
			}
			if !next.After(at) {
				t.Fatalf("%q in %q: %v is not after %v", expr, zone, next, at)
			}
			at = next
		}
	})
}
